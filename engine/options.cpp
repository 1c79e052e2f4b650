#include "engine/options.h"

#include "core/error.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"
#include "core/parallel/processes/joining.h"
#include "core/units.h"
#include "engine/loading/machine.h"
#include "engine/loading/model_key.h"
#include "text/grammar/json_schema/json_schema.h"

#include <algorithm>
#include <charconv>

namespace ridge::engine {

namespace {

int64_t tokens_at_once(const api::ModelOptions& options) {
  return std::min(options.ubatch > 0 ? options.ubatch : kDefaultUbatch, options.batch);
}

} // namespace

core::ExecutorConfig executor_config(const api::ModelOptions& options, int64_t trained_context) {
  const int64_t context = options.context;
  core::ExecutorConfig config;
  config.context = context < 0 ? std::min(trained_context, kDefaultContext) : context == 0 ? trained_context : context;
  config.max_batch = std::min(tokens_at_once(options), config.context);
  config.max_outputs = 1;
  config.threads = options.threads;
  config.k_type = core::kv_type_of(options.k_type);
  config.v_type = core::kv_type_of(options.v_type);
  config.batch_invariant = options.batch_invariant;
  return config;
}

void set_streams(core::ExecutorConfig& config, const api::ModelOptions& options, int64_t streams) {
  config.streams = streams;
  config.max_batch = std::max(streams, std::min(tokens_at_once(options), config.context * streams));
}

namespace {

int64_t prefix_bytes(const api::PrefixOptions& options) {
  constexpr double kMax = 8.0 * (1 << 30);
  if (options.size == "0") return 0;
  if (!options.size.empty()) return static_cast<int64_t>(core::parse_bytes(options.size, "--prefix-cache"));
  const double memory = memory_bytes("MemTotal");
  return static_cast<int64_t>(std::min(kMax, memory / 8));
}

} // namespace

void check_prefixes(const api::PrefixOptions& options) {
  if (prefix_bytes(options) == 0 && !options.folder.empty())
    throw Error("--cache-dir stores the prefix cache and needs a --prefix-cache above 0", Error::kUsage);
  core::parse_bytes(options.folder_size, "--cache-dir-size");
}

PrefixSettings prefix_settings(const api::PrefixOptions& options, const gguf::File& model, const Notice& warn) {
  check_prefixes(options);
  PrefixSettings settings{prefix_bytes(options), options.folder,
                          static_cast<int64_t>(core::parse_bytes(options.folder_size, "--cache-dir-size")), "", warn};
  if (!settings.folder.empty()) settings.model = model_key(model);
  settings.keeps_answers = core::ProcessRank::from_environment().ranks > 1;
  return settings;
}

nlohmann::ordered_json answer_schema(const api::SamplingOptions& options) {
  if (options.json_schema.empty()) return nullptr;
  return core::parse_json(options.json_schema, "--json-schema", {.exact_numbers = true});
}

std::string grammar_text(const api::SamplingOptions& options) {
  if (!options.grammar_file.empty()) return core::read_text_file(options.grammar_file);
  if (options.json_schema.empty()) return options.grammar;
  return text::gbnf_from_json_schema(answer_schema(options));
}

text::ChatTemplate choose_template(const api::TemplateOptions& options, const gguf::File& model, const Notice& notice) {
  using text::ChatTemplate;
  if (!options.file.empty()) return ChatTemplate::parse(core::read_text_file(options.file), options.file);
  if (!options.name.empty()) return ChatTemplate::builtin(options.name);
  auto chosen = [&] {
    try {
      return text::choose_chat_template(model);
    } catch (const Error& error) {
      throw_error("{} (--chat-template NAME selects a built-in template instead)", error.what());
    }
  }();
  if (chosen.origin.empty() && chosen.chat_template.name() == text::kPlainTemplate)
    notice("this model has no chat template: sending messages as plain text (--chat-template NAME selects one)");
  else if (chosen.origin.empty())
    notice(fmt::format("this model has no chat template: using \"{}\", the usual one of its family (--chat-template "
                       "NAME selects another)",
                       chosen.chat_template.name()));
  return chosen.chat_template;
}

void set_thinking(nlohmann::ordered_json& variables, bool on) {
  variables["enable_thinking"] = variables["thinking"] = on;
  variables["thinking_mode"] = on ? "enabled" : "disabled";
}

namespace {

std::string other_switch(const text::ChatTemplate& chat_template) {
  for (const char* json : {R"({"reasoning_effort": "low"})", R"({"thinking_budget": 0})"}) {
    const std::string_view name = std::string_view(json).substr(2, std::string_view(json).find('"', 2) - 2);
    if (chat_template.source().find(name) != std::string::npos)
      return fmt::format("; use --chat-template-kwargs '{}'", json);
  }
  return " (some models take /think and /no_think in a message)";
}

bool has_thinking_switch(const text::ChatTemplate& chat_template, text::ChatOptions options) {
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "?"}}};
  const auto prompt = [&](bool thinking) {
    set_thinking(options.extra, thinking);
    return chat_template.render(messages, options);
  };
  try {
    return prompt(true) != prompt(false);
  } catch (const Error&) {
    return true; // unknown: the template refuses this message
  }
}

} // namespace

nlohmann::ordered_json template_variables(const api::TemplateOptions& options, const text::ChatTemplate& chat_template,
                                          const Notice& notice) {
  text::ChatOptions chat;
  nlohmann::ordered_json& variables = chat.extra;
  if (!options.variables.empty()) {
    variables = core::find_json(options.variables, {.exact_numbers = true}).value_or(nullptr);
    if (!variables.is_object())
      throw_error("--chat-template-kwargs: expected a JSON object such as {{\"enable_thinking\": false}}");
  }
  if (options.thinking.empty()) return variables;
  if (!has_thinking_switch(chat_template, chat))
    notice(fmt::format("--thinking {}: the chat template has no such option{}", options.thinking,
                       other_switch(chat_template)));
  set_thinking(variables, options.thinking == "on");
  return variables;
}

namespace {

template <typename T>
T parse_number(const std::string& text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    throw_error("'{}' is not a {}", text, std::is_integral_v<T> ? "whole number" : "number");
  return value;
}

template <auto Member>
constexpr SamplingSetting param(std::string_view name) {
  using T = std::remove_reference_t<decltype(std::declval<core::SamplerParams&>().*Member)>;
  return {name, [](const api::SamplingOptions& o) { return fmt::format("{}", o.params.*Member); },
          [](api::SamplingOptions& o, const std::string& text) { o.params.*Member = parse_number<T>(text); }};
}

template <auto Member>
constexpr SamplingSetting dry_param(std::string_view name) {
  using T = std::remove_reference_t<decltype(std::declval<core::DryParams&>().*Member)>;
  return {name, [](const api::SamplingOptions& o) { return fmt::format("{}", o.params.dry.*Member); },
          [](api::SamplingOptions& o, const std::string& text) { o.params.dry.*Member = parse_number<T>(text); }};
}

} // namespace

std::span<const SamplingSetting> sampling_settings() {
  using P = core::SamplerParams;
  using D = core::DryParams;
  static constexpr SamplingSetting kSettings[] = {
      param<&P::temp>("temp"),
      param<&P::top_k>("top-k"),
      param<&P::top_p>("top-p"),
      param<&P::min_p>("min-p"),
      param<&P::typical_p>("typical"),
      param<&P::repeat_penalty>("repeat-penalty"),
      param<&P::repeat_last_n>("repeat-last-n"),
      param<&P::presence_penalty>("presence-penalty"),
      param<&P::frequency_penalty>("frequency-penalty"),
      dry_param<&D::multiplier>("dry-multiplier"),
      dry_param<&D::base>("dry-base"),
      dry_param<&D::allowed_length>("dry-allowed-length"),
      dry_param<&D::last_n>("dry-penalty-last-n"),
      param<&P::top_n_sigma>("top-n-sigma"),
      param<&P::xtc_probability>("xtc-probability"),
      param<&P::xtc_threshold>("xtc-threshold"),
      param<&P::dynatemp_range>("dynatemp-range"),
      param<&P::dynatemp_exponent>("dynatemp-exp"),
      param<&P::mirostat>("mirostat"),
      param<&P::mirostat_tau>("mirostat-ent"),
      param<&P::mirostat_eta>("mirostat-lr"),
      param<&P::adaptive_target>("adaptive-target"),
      param<&P::adaptive_decay>("adaptive-decay"),
      {"samplers", [](const api::SamplingOptions& o) { return core::order_text(o.params.order); },
       [](api::SamplingOptions& o, const std::string& text) { o.params.order = core::parse_order(text, "samplers"); }},
      param<&P::seed>("seed"),
      {"predict", [](const api::SamplingOptions& o) { return fmt::format("{}", o.max_tokens); },
       [](api::SamplingOptions& o, const std::string& text) { o.max_tokens = parse_number<int64_t>(text); }},
  };
  return kSettings;
}

} // namespace ridge::engine
