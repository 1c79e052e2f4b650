#include "server/requests/request_fields.h"

#include "core/json/parse.h"
#include "server/json/api_error.h"
#include "server/models/model_service.h"

#include <algorithm>
#include <unordered_map>

namespace ridge::server {
namespace {

constexpr unsigned of(Api api) { return 1u << static_cast<unsigned>(api); }
constexpr unsigned kOpenAi = of(Api::chat) | of(Api::completion) | of(Api::responses);
constexpr unsigned kNative = of(Api::native) | of(Api::infill);
constexpr unsigned kTexts = kOpenAi | kNative | of(Api::messages) | of(Api::ollama) | of(Api::options);
constexpr unsigned kAll = kTexts | of(Api::embeddings) | of(Api::rerank);
constexpr const char* kOff = R"([false, 0, "", [], {}, [""]])"; // values without effect

struct Row {
  const char* names;
  unsigned apis;
  const char* harmless = nullptr; // accepted values; null: all
};

// Fields that are read or have no effect on answers.
constexpr Row kAccepted[] = {
    {"model keep_alive stream", kAll},
    {"temperature top_p top_k min_p typical_p presence_penalty frequency_penalty repeat_penalty repetition_penalty "
     "seed repeat_last_n dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers "
     "top_n_sigma "
     "xtc_probability xtc_threshold dynatemp_range dynatemp_exponent mirostat mirostat_tau mirostat_eta "
     "adaptive_target "
     "adaptive_decay min_keep samplers diffusion_steps diffusion_block diffusion_order",
     kOpenAi | kNative | of(Api::messages) | of(Api::options)},
    {"user metadata service_tier safety_identifier prompt_cache_key prompt_cache_retention cache_salt store id_slot "
     "n_keep n_discard n_cache_reuse timings_per_token return_progress stream_options request_id priority provider "
     "route transforms models usage ttl draft_model verbosity prediction guided_decoding_backend "
     "spaces_between_special_tokens kv_transfer_params",
     kOpenAi | kNative},
    {"lora", kOpenAi | kNative | of(Api::messages)},
    {"max_tokens max_completion_tokens n_predict stop logit_bias ignore_eos min_tokens stop_token_ids cache_prompt "
     "grammar json_schema guided_json guided_regex guided_choice guided_grammar structured_outputs response_format",
     kOpenAi | kNative},
    {"prompt n n_cmpl n_probs n_indent t_max_predict_ms t_max_prompt_ms return_tokens response_fields "
     "post_sampling_probs",
     kNative},
    {"input_prefix input_suffix input_extra", of(Api::infill)},
    {"n logprobs", of(Api::chat) | of(Api::completion)},
    {"messages tools tool_choice parallel_tool_calls functions function_call top_logprobs reasoning_effort reasoning "
     "enable_thinking thinking chat_template_kwargs add_generation_prompt continue_final_message include_reasoning "
     "thinking_budget thinking_token_budget thinking_budget_tokens reasoning_budget reasoning_budget_tokens "
     "reasoning_budget_message",
     of(Api::chat)},
    {"prompt suffix echo best_of parse_special add_special_tokens", of(Api::completion)},
    {"input instructions previous_response_id include max_output_tokens max_tool_calls parallel_tool_calls text "
     "tool_choice tools top_logprobs truncation reasoning",
     of(Api::responses)},
    {"max_tokens messages system stop_sequences temperature top_p top_k tools tool_choice thinking output_config "
     "output_format metadata service_tier inference_geo cache_control betas context_management min_p typical_p "
     "presence_penalty frequency_penalty repeat_penalty repetition_penalty seed repeat_last_n",
     of(Api::messages)},
    {"name messages prompt suffix system tools format options think raw images logprobs top_logprobs truncate shift",
     of(Api::ollama)},
    {"num_predict stop num_ctx num_batch num_gpu main_gpu num_thread num_keep numa low_vram f16_kv vocab_only "
     "logits_all use_mmap use_mlock embedding_only rope_frequency_base rope_frequency_scale "
     "penalize_newline",
     of(Api::options)},
    {"query documents texts top_n return_documents return_text raw_scores truncate text_1 text_2 queries data_1 data_2 "
     "user max_tokens_per_doc max_chunks_per_doc truncate_prompt_tokens priority rank_fields input_type",
     of(Api::rerank)},
    {"input prompt encoding_format dimensions truncate options user input_type", of(Api::embeddings)},
};

// Fields that would change answers; docs/serve.md lists them.
constexpr Row kRefused[] = {
    {"top_a smoothing_factor", kOpenAi | kNative | of(Api::options), kOff},
    {"tfs_z tfs length_penalty", kOpenAi | kNative | of(Api::options), "[0, 1]"},
    {"n_probs n_indent post_sampling_probs return_tokens response_fields grammar_lazy "
     "guided_whitespace_pattern structural_tag use_beam_search bad_words allowed_token_ids logits_processors "
     "include_stop_str_in_output truncate_prompt_tokens prompt_logprobs return_token_ids "
     "return_tokens_as_token_ids prompt_embeds repetition_detection",
     kOpenAi, kOff},
    {"grammar_lazy image_data", kNative, kOff},
    {"skip_special_tokens", kOpenAi, "[true]"},
    {"include_reasoning", of(Api::completion) | of(Api::responses), "[true]"},
    {"t_max_predict_ms", kOpenAi, "[-1, 0]"},
    {"thinking_budget thinking_token_budget thinking_budget_tokens reasoning_budget reasoning_budget_tokens",
     of(Api::completion) | of(Api::responses), "[-1, 0]"},
    {"reasoning_format", kOpenAi, R"(["auto", "deepseek"])"},
    {"safe_prompt plugins web_search_options audio documents chat_template echo", of(Api::chat), kOff},
    {"modalities", of(Api::chat), R"([["text"], []])"},
    {"background conversation prompt", of(Api::responses), kOff},
    {"container mcp_servers", of(Api::messages), kOff},
    {"template context width height steps", of(Api::ollama), kOff},
};

struct Rule {
  unsigned apis;
  Json harmless;
};

const std::unordered_map<std::string, std::vector<Rule>>& rules() {
  static const auto all = [] {
    std::unordered_map<std::string, std::vector<Rule>> rules;
    const auto add = [&](std::span<const Row> rows) {
      for (const Row& row : rows) {
        const Rule rule{row.apis, row.harmless ? core::parse_json(row.harmless) : Json()};
        std::string_view names = row.names;
        while (!names.empty()) {
          const size_t end = std::min(names.find(' '), names.size());
          rules[std::string(names.substr(0, end))].push_back(rule);
          names.remove_prefix(std::min(end + 1, names.size()));
        }
      }
    };
    add(kAccepted);
    add(kRefused);
    return rules;
  }();
  return all;
}

} // namespace

void check_fields(ModelService& service, const Fields& body, Api api) {
  int64_t ignored = 0;
  for (const auto& [name, value] : body.json().items()) {
    const auto known = rules().find(name);
    const Rule* rule = nullptr;
    if (known != rules().end()) {
      const auto at = std::ranges::find_if(known->second, [api](const Rule& one) { return one.apis & of(api); });
      if (at != known->second.end()) rule = &*at;
    }
    ignored += rule == nullptr;
    if (!rule || rule->harmless.is_null() || value.is_null()) continue;
    if (std::ranges::find(rule->harmless, value) == rule->harmless.end())
      throw_invalid(body.path_of(name.c_str()), "{} is not supported", body.path_of(name.c_str()));
  }
  service.count_ignored_fields(ignored);
}

std::vector<std::string_view> refused_fields() {
  std::vector<std::string_view> names;
  for (const auto& [name, list] : rules())
    if (std::ranges::any_of(list, [](const Rule& rule) { return !rule.harmless.is_null(); })) names.push_back(name);
  return names;
}

} // namespace ridge::server
