#include "app/cli/options.h"

#include "app/help/help_page.h"
#include "app/models/model_names.h"
#include "app/terminal/piped_text.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/kv_type.h"
#include "core/strings/printable.h"
#include "engine/adapters/adapters.h"
#include "engine/options.h"
#include "engine/speculation/speculator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace ridge::app {
namespace {

constexpr int kManyWords = 10000;

} // namespace

void add_model_options(CLI::App& command, api::ModelOptions& o, bool guide, bool bare) {
  command
      .add_option(bare ? "-m,--model,model" : "-m,--model", o.model,
                  fmt::format("GGUF file (any part of a split model) or a name from `ridge models`{}",
                              guide ? " (default: the built-in guide)" : ""))
      ->type_name(kModelType)
      ->required(!guide);
  command.add_option("--device", o.device, "auto (the GPU if there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  command
      .add_option("-c,--ctx-size", o.context,
                  fmt::format("context size in tokens; 0: the model's trained context (default: that, at most {})",
                              engine::kDefaultContext))
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->type_name("N");
  add_adapter_options(command, o.adapters);
  const OptionGroup group(command, kMemoryGroup);
  command.add_option("-b,--batch-size", o.batch, "maximum number of prompt tokens submitted to the engine at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--ubatch-size", o.ubatch,
                  fmt::format("maximum number of prompt tokens evaluated in one forward pass (-ub); more need more "
                              "scratch memory (default: all if the GPU has room, otherwise {})",
                              engine::kDefaultUbatch))
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N");
  command.add_option("-t,--threads", o.threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command
      .add_option("--gpu-layers,--n-gpu-layers", o.gpu_layers,
                  "put the last N layers, counting the output layer, on the GPU and the rest on the CPU (-ngl; "
                  "default: as many as fit)")
      ->check(CLI::Range(-1, 1 << 20))
      ->type_name("N");
  add_gpu_room_options(command, {o.experts_on_host, o.cpu_experts, o.gpu_memory, o.host_memory, o.ranks});
  const auto types = CLI::IsMember(core::kv_type_names());
  command
      .add_option("--cache-type-k", o.k_type,
                  "KV cache type for keys: f16, f32, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl (-ctk)")
      ->check(types)
      ->capture_default_str()
      ->type_name("TYPE");
  command.add_option("--cache-type-v", o.v_type, "KV cache type for values, as for --cache-type-k (-ctv)")
      ->check(types)
      ->capture_default_str()
      ->type_name("TYPE");
}

void add_adapter_options(CLI::App& command, std::vector<api::AdapterOption>& adapters, const char* help) {
  command
      .add_option_function<std::vector<std::string>>(
          "--lora",
          [&adapters](const std::vector<std::string>& texts) {
            adapters.clear();
            for (const std::string& text : texts)
              std::ranges::copy(engine::parse_adapters(text), std::back_inserter(adapters));
          },
          help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("FILE");
}

void add_gpu_room_options(CLI::App& command, const RoomOptions& o) {
  const OptionGroup group(command, kMemoryGroup);
  command
      .add_flag("--cpu-moe", o.experts_on_host,
                "keep experts in host memory and cache the most used ones on the GPU; automatic if the model does not "
                "fit the GPU")
      ->excludes("--gpu-layers");
  command
      .add_flag("--cpu-experts", o.cpu_experts,
                "let all CPU threads but one compute experts that the GPU lacks while others are copied to it: as many "
                "as that makes sooner, if memory has room for the file, too")
      ->excludes("--gpu-layers");
  command
      .add_option("--gpu-memory", o.gpu_memory,
                  "use at most this much memory of each GPU, such as 8GiB (default: what is free)")
      ->type_name("SIZE");
  command
      .add_option("--host-memory", o.host_memory,
                  "keep at most this much of the experts in host memory, such as 16GiB; the others are read from the "
                  "file when needed (default: what is free)")
      ->type_name("SIZE");
  command.add_option("--gpus", o.ranks.gpus, "use these GPUs, such as 0,1 (default: as few as hold the model)")
      ->type_name("LIST");
  command
      .add_option("--tensor-parallel", o.ranks.tensor_parallel,
                  "split every layer over N ranks: one per GPU, or with --device cpu N groups of threads")
      ->check(CLI::Range(1, 64))
      ->excludes("--gpu-layers")
      ->excludes("--cpu-moe")
      ->excludes("--cpu-experts")
      ->type_name("N");
  command
      .add_option("--pipeline", o.ranks.pipeline,
                  "split the layers into N consecutive stages, each on its own GPU or on as many GPUs as "
                  "--tensor-parallel says")
      ->check(CLI::Range(1, 64))
      ->excludes("--gpu-layers")
      ->excludes("--cpu-moe")
      ->excludes("--cpu-experts")
      ->type_name("N");
}

void add_speculation_options(CLI::App& command, api::ModelOptions& o) {
  const OptionGroup group(command, kAdvancedGroup);
  command
      .add_option("--spec", o.speculation,
                  "speculative decoding, used while it pays off: mtp (the model file's draft heads), ngram (what "
                  "followed the same tokens earlier), draft (the model of --draft-model), auto (draft, mtp or ngram: "
                  "the first available) or off")
      ->check(CLI::IsMember({"auto", "off", "mtp", "ngram", "draft"}))
      ->capture_default_str()
      ->type_name("METHOD");
  command
      .add_option("--draft-model", o.draft_model,
                  "draft model: a smaller model with the same vocabulary, or an EAGLE-3 or DFlash head (-md)")
      ->type_name(kModelType);
  command
      .add_option("--draft-tokens", o.draft_tokens,
                  "maximum draft tokens per step (default: chosen by measured acceptance)")
      ->check(CLI::Range(int64_t{1}, engine::kMaxGuesses))
      ->type_name("N");
}

void add_batch_invariant_option(CLI::App& command, bool& batch_invariant) {
  const OptionGroup group(command, kAdvancedGroup);
  command.add_flag(
      "--batch-invariant", batch_invariant,
      "on a GPU, compute each token to the bit as if alone, so that a seed's text does not depend on "
      "drafts, other requests and cached prefixes; much slower for prompts; not for experts (the CPU always does)");
}

void add_media_options(CLI::App& command, std::vector<std::string>& files, std::string& mmproj, bool sounds) {
  const auto add = [&](const char* flag, const char* help) { // one list, in command-line order
    command
        .add_option_function<std::string>(
            flag, [&files](const std::string& file) { files.push_back(file); }, help)
        ->trigger_on_parse()
        ->type_name("FILE");
  };
  add("--image", "an image: JPEG, PNG, WebP, GIF, BMP or PPM (repeatable)");
  if (sounds) add("--audio", "an audio file: WAV, or with libsndfile FLAC, MP3 or Ogg (repeatable)");
  command
      .add_option("--mmproj", mmproj,
                  "GGUF file with the model's image or audio encoder, or none (default: a matching mmproj*.gguf next "
                  "to the model)")
      ->type_name("FILE");
}

void add_mcp_options(CLI::App& command, McpOptions& options) {
  command
      .add_option(
          "--mcp", options.files,
          "JSON file with \"mcpServers\": MCP servers whose tools the model may call, with your consent (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("FILE");
  command
      .add_option("--mcp-server", options.servers,
                  "an MCP server: a name and its command, \"files=npx -y some-server /home/me\", or its address, "
                  "docs=https://example.org/mcp (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("NAME=COMMAND");
  command.add_flag("--mcp-plain-http", options.plain_http,
                   "let tokens and other headers of MCP servers go unencrypted, over http://, to other machines");
}

void add_prefix_cache_option(CLI::App& command, api::PrefixOptions& options) {
  const OptionGroup group(command, kMemoryGroup);
  command
      .add_option("--prefix-cache", options.size,
                  "host memory for each model's cache of evaluated prompts and answers, such as 8GiB; 0: no cache "
                  "(default: an eighth of the memory, at most 8GiB)")
      ->type_name("SIZE");
}

namespace {

void add_rarer_samplers(CLI::App& command, api::SamplingOptions& o) {
  const auto option = [&](const char* names, auto& variable, const char* setting, const char* help, const char* type) {
    command.add_option(names, variable, help)
        ->capture_default_str()
        ->type_name(type)
        ->each([&o, setting](const std::string&) { o.chosen.emplace_back(setting); });
  };
  core::SamplerParams& p = o.params;
  option("--dry-multiplier", p.dry.multiplier, "dry-multiplier",
         "DRY: penalty for tokens that continue a repetition; 0: off", "X");
  option("--dry-base", p.dry.base, "dry-base", "the penalty is multiplied by this for each repeated token", "X");
  option("--dry-allowed-length", p.dry.allowed_length, "dry-allowed-length",
         "repetitions shorter than this are not penalized", "N");
  option("--dry-penalty-last-n", p.dry.last_n, "dry-penalty-last-n",
         "how many recent tokens are searched for repetitions; 0: none, -1: all", "N");
  command
      .add_option_function<std::vector<std::string>>(
          "--dry-sequence-breaker",
          [&p](const std::vector<std::string>& texts) {
            p.dry.breakers = texts;
            std::erase(p.dry.breakers, "none");
          },
          "text that ends a repetition (repeatable; none: no text; default: a new line, \":\", \"\\\"\", \"*\")")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("TEXT");
  option("--top-n-sigma,--top-nsigma", p.top_n_sigma, "top-n-sigma",
         "keep tokens whose logits are within this many standard deviations of the highest; 0 or less: all", "X");
  option("--xtc-probability", p.xtc_probability, "xtc-probability",
         "XTC: probability of removing all but the least likely of the tokens above the threshold; 0: off", "P");
  option("--xtc-threshold", p.xtc_threshold, "xtc-threshold", "the threshold; above 0.5: off", "P");
  option("--dynatemp-range", p.dynatemp_range, "dynatemp-range",
         "range by which entropy lowers or raises the temperature; 0: off", "X");
  option("--dynatemp-exp", p.dynatemp_exponent, "dynatemp-exp", "exponent of the entropy in that mapping", "X");
  option("--mirostat", p.mirostat, "mirostat",
         "Mirostat version 1 or 2, which holds surprise constant and replaces the other filters; 0: off", "N");
  option("--mirostat-ent", p.mirostat_tau, "mirostat-ent", "target surprise in bits", "X");
  option("--mirostat-lr", p.mirostat_eta, "mirostat-lr", "learning rate of Mirostat", "X");
  option("--adaptive-target", p.adaptive_target, "adaptive-target",
         "prefer tokens with about this probability; below 0: off", "P");
  option("--adaptive-decay", p.adaptive_decay, "adaptive-decay",
         "how strongly earlier tokens count for this target, up to 0.99", "X");
  option("--diffusion-steps", p.diffusion.steps, "diffusion-steps",
         "for diffusion models: number of evaluations of the whole text; 0: one per token", "N");
  option("--diffusion-block", p.diffusion.block, "diffusion-block",
         "tokens in a block, decided before the next block begins; 0: all, -1: the model's recommendation", "N");
  command
      .add_option_function<std::string>(
          "--diffusion-order", [&p](const std::string& name) { p.diffusion.order = *core::fill_order_of_name(name); },
          "which tokens are decided first: confidence, margin, entropy or random")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(core::kFillOrders), std::end(core::kFillOrders))))
      ->type_name("WORD");
  option("--min-keep", p.min_keep, "min-keep", "minimum number of tokens left by top-p, min-p, typical and XTC", "N");
  auto* by_name = command
                      .add_option_function<std::string>(
                          "--samplers",
                          [&o](const std::string& text) {
                            o.params.order = core::parse_order(text, "--samplers");
                            o.chosen.emplace_back("samplers");
                          },
                          fmt::format("samplers in order of use; samplers not listed are off (default: {})",
                                      core::order_text(core::usual_order())))
                      ->type_name("LIST");
  command
      .add_option_function<std::string>(
          "--sampler-seq,--sampling-seq",
          [&o](const std::string& letters) {
            o.params.order = core::parse_order_letters(letters, "--sampler-seq");
            o.chosen.emplace_back("samplers");
          },
          "the same, one letter per sampler (edskypmxta)")
      ->type_name("LETTERS")
      ->excludes(by_name);
}

} // namespace

void add_sampling_options(CLI::App& command, api::SamplingOptions& o) {
  const auto option = [&](const char* name, auto& variable, const char* help, const char* type) {
    command.add_option(name, variable, help)
        ->capture_default_str()
        ->type_name(type)
        ->each([&o, name](const std::string&) { o.chosen.emplace_back(name + 2); });
  };
  command.footer("Sampler values and sampler order stated in the model file (general.sampling.*)\nare the defaults of "
                 "these options.");
  command
      .add_option("-n,--predict", o.max_tokens,
                  "maximum number of tokens to generate (default: until the model stops or the context is full)")
      ->type_name("N");
  const OptionGroup group(command, kSamplingGroup);
  option("--temp", o.params.temp, "temperature; 0: always the most likely token", "X");
  option("--top-k", o.params.top_k, "keep the K most likely tokens; 0: all", "K");
  option("--top-p", o.params.top_p, "keep the most likely tokens up to this total probability; 1: all", "P");
  option("--min-p", o.params.min_p,
         "keep tokens with at least this probability relative to the most likely one; 0: all", "P");
  option("--typical", o.params.typical_p, "keep the most typical tokens up to this total probability; 1: all", "P");
  option("--repeat-penalty", o.params.repeat_penalty, "penalty for recent tokens; 1: none", "X");
  option("--repeat-last-n", o.params.repeat_last_n, "how many tokens count as recent; 0: none, -1: all", "N");
  option("--presence-penalty", o.params.presence_penalty, "subtracted from the logits of recent tokens", "X");
  option("--frequency-penalty", o.params.frequency_penalty, "subtracted once per recent occurrence", "X");
  add_rarer_samplers(command, o);
  command.add_option("-s,--seed", o.params.seed, "random seed; the same seed gives the same text (default: random)")
      ->type_name("N");
  command.add_option("--stop", o.stop, "stop the answer before this text (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("TEXT");
  command
      .add_option("--reasoning-budget", o.reasoning_budget,
                  "maximum number of reasoning tokens in a chat; 0: none (default: no limit)")
      ->check(CLI::Range(int64_t{-1}, int64_t{INT32_MAX}))
      ->type_name("N");
  command
      .add_option("--reasoning-budget-message", o.reasoning_message,
                  "text that ends the reasoning when the budget is used up")
      ->type_name("TEXT");
  command.add_flag("--ignore-eos", o.ignore_eos, "continue after the end-of-turn token");
  auto* text =
      command.add_option("--grammar", o.grammar, "constrain the answer to this GBNF grammar")->type_name("GBNF");
  auto* file =
      command.add_option("--grammar-file", o.grammar_file, "constrain the answer to the GBNF grammar in this file")
          ->type_name("FILE")
          ->excludes(text);
  command
      .add_option("-j,--json-schema", o.json_schema,
                  "constrain the answer to JSON that matches this schema ({}: any JSON)")
      ->type_name("SCHEMA")
      ->excludes(text)
      ->excludes(file);
}

void add_template_options(CLI::App& command, api::TemplateOptions& o) {
  const OptionGroup group(command, kAdvancedGroup);
  auto* by_name = command
                      .add_option("--chat-template", o.name,
                                  fmt::format("use a built-in chat template instead of the model's: {}",
                                              fmt::join(text::ChatTemplate::builtin_names(), " ")))
                      ->type_name("NAME");
  command.add_option("--chat-template-file", o.file, "read a Jinja chat template from a file")
      ->type_name("FILE")
      ->excludes(by_name);
  command
      .add_option("--thinking", o.thinking, "on or off: whether the model reasons first, if its template supports it")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("WORD");
  command
      .add_option("--chat-template-kwargs", o.variables,
                  "more variables for the template, e.g. '{\"reasoning_effort\": \"low\"}'")
      ->type_name("JSON");
}

void TextOptions::add_to(CLI::App& command, const char* text_help) {
  auto* text_option = command.add_option("-p,--prompt", text, text_help)->type_name("TEXT");
  command.add_option("-f,--file", file, "read it from a file, bytes unchanged (-: standard input)")
      ->type_name("FILE")
      ->excludes(text_option);
}

void TextOptions::add_words(CLI::App& command) {
  words_option =
      command
          .add_option("words", "without -m and -p: a model and a quoted text; a text alone goes to the built-in guide")
          ->expected(1, kManyWords)
          ->allow_extra_args()
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->type_name(kModelAndTextType);
}

std::vector<std::string> TextOptions::words() const {
  return words_option ? words_option->results() : std::vector<std::string>{};
}

std::string TextOptions::read() const {
  const std::vector<std::string> all = words();
  if (all.empty()) return file.empty() ? text : core::read_text_file(file);
  if (!text.empty() || !file.empty())
    throw Error(fmt::format("'{}': -p or -f already gives a text", core::printable(all[0])), Error::kUsage);
  return fmt::format("{}", fmt::join(all, " "));
}

std::string TextOptions::read_with_piped() const {
  const std::string own = read();
  if (file == "-") return own;
  const std::string piped = piped_text();
  return own.empty() || piped.empty() ? own + piped : fmt::format("{}\n\n{}", own, piped);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

std::vector<int32_t> parse_ids(const std::string& text, const char* flag) {
  std::vector<int32_t> ids;
  size_t at = 0;
  while (true) {
    at = text.find_first_not_of(", \t\r\n", at);
    if (at == std::string::npos) break;
    const size_t end = std::min(text.find_first_of(", \t\r\n", at), text.size());
    int32_t id;
    const auto [stop, problem] = std::from_chars(text.data() + at, text.data() + end, id);
    if (problem != std::errc() || stop != text.data() + end || id < 0)
      throw Error(
          fmt::format("{}: '{}' is not a token id; expected numbers like 1,2,3", flag, text.substr(at, end - at)),
          Error::kUsage);
    ids.push_back(id);
    at = end;
  }
  if (ids.empty()) throw Error(fmt::format("{}: no token ids", flag), Error::kUsage);
  return ids;
}

} // namespace ridge::app
