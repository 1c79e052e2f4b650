#include "app/options.h"

#include "app/terminal.h"
#include "core/atomic_file.h"
#include "core/error.h"
#include "models/text/json_schema.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace ridge::app {

void ModelOptions::add_to(CLI::App& command, bool guide) {
  command
      .add_option("-m,--model", model,
                  fmt::format("GGUF file (of a split model: any part){}", guide ? "; default: the built-in guide" : ""))
      ->type_name("FILE")
      ->required(!guide);
  command.add_option("--device", device, "auto (the GPU where there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  command
      .add_option("-c,--ctx-size", context,
                  fmt::format("context in tokens; 0: all the model was trained for (default: that, at most {})",
                              kDefaultContext))
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->type_name("N");
  command.add_option("-b,--batch-size", batch, "prompt tokens handed to the engine at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--ubatch-size", ubatch, "of these, evaluated at once (-ub): scratch memory grows with it")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->type_name("N");
  command.add_option("-t,--threads", threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command
      .add_option("--gpu-layers,--n-gpu-layers", gpu_layers,
                  "the last N layers on the GPU, the output being one of them, the rest on the CPU (-ngl); "
                  "default: as many as there is room for")
      ->check(CLI::Range(-1, 1 << 20))
      ->type_name("N");
  const auto types = CLI::IsMember({"f16", "f32", "q8_0"});
  command.add_option("--cache-type-k", k_type, "KV cache type of keys: f16, f32 or q8_0 (-ctk)")
      ->check(types)
      ->capture_default_str()
      ->type_name("TYPE");
  command.add_option("--cache-type-v", v_type, "KV cache type of values: f16, f32 or q8_0 (-ctv)")
      ->check(types)
      ->capture_default_str()
      ->type_name("TYPE");
}

core::ExecutorConfig ModelOptions::executor_config(int64_t trained_context) const {
  core::ExecutorConfig config;
  config.context = context < 0 ? std::min(trained_context, kDefaultContext) : context == 0 ? trained_context : context;
  config.max_batch = std::min({ubatch, batch, config.context});
  config.max_outputs = 1;
  config.threads = threads;
  const auto cache_type = [](const std::string& name) {
    return name == "f32" ? core::KvType::f32 : name == "q8_0" ? core::KvType::q8_0 : core::KvType::f16;
  };
  config.k_type = cache_type(k_type);
  config.v_type = cache_type(v_type);
  return config;
}

void SamplingOptions::add_to(CLI::App& command) {
  const auto option = [&](const char* name, auto& variable, const char* help, const char* type) {
    command.add_option(name, variable, help)->capture_default_str()->type_name(type);
  };
  command
      .add_option("-n,--predict", max_tokens,
                  "tokens to generate (default: until the model ends or the context is full)")
      ->type_name("N");
  option("--temp", params.temp, "temperature; 0: always the most probable token", "X");
  option("--top-k", params.top_k, "keep the k most probable tokens; 0: all", "K");
  option("--top-p", params.top_p, "keep the most probable tokens of this total probability; 1: all", "P");
  option("--min-p", params.min_p, "keep tokens at least this probable relative to the best; 0: all", "P");
  option("--typical", params.typical_p, "keep the most typical tokens of this total probability; 1: all", "P");
  option("--repeat-penalty", params.repeat_penalty, "penalty on recent tokens; 1: none", "X");
  option("--repeat-last-n", params.repeat_last_n, "how many tokens are recent; 0: none, -1: all", "N");
  option("--presence-penalty", params.presence_penalty, "subtracted from the logits of recent tokens", "X");
  option("--frequency-penalty", params.frequency_penalty, "subtracted once per recent occurrence", "X");
  command.add_option("-s,--seed", params.seed, "random seed; the same seed gives the same text (default: a new one)")
      ->type_name("N");
  command.add_option("--stop", stop, "end the answer before this text (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT");
  command.add_flag("--ignore-eos", ignore_eos, "do not stop where the model ends its turn");
  auto* text = command.add_option("--grammar", grammar, "hold the answer to this GBNF grammar")->type_name("GBNF");
  auto* file =
      command.add_option("--grammar-file", grammar_file, "the same from a file")->type_name("FILE")->excludes(text);
  command.add_option("-j,--json-schema", json_schema, "hold the answer to JSON of this schema ({}: any JSON)")
      ->type_name("SCHEMA")
      ->excludes(text)
      ->excludes(file);
}

std::string SamplingOptions::grammar_text() const {
  if (!grammar_file.empty()) return read_text_file(grammar_file);
  if (json_schema.empty()) return grammar;
  const auto schema = nlohmann::ordered_json::parse(json_schema, nullptr, false);
  if (schema.is_discarded()) throw_error("--json-schema: is no JSON");
  return models::text::gbnf_from_json_schema(schema);
}

void TemplateOptions::add_to(CLI::App& command) {
  auto* by_name = command
                      .add_option("--chat-template", name,
                                  fmt::format("a built-in chat template instead of the model's own: {}",
                                              fmt::join(models::text::ChatTemplate::builtin_names(), " ")))
                      ->type_name("NAME");
  command.add_option("--chat-template-file", file, "a Jinja chat template from a file")
      ->type_name("FILE")
      ->excludes(by_name);
}

models::text::ChatTemplate TemplateOptions::choose(const gguf::File& model) const {
  using models::text::ChatTemplate;
  if (!file.empty()) return ChatTemplate::parse(read_text_file(file), file);
  if (!name.empty()) return ChatTemplate::builtin(name);
  auto chosen = models::text::choose_chat_template(model);
  if (chosen.origin == models::text::kPlainTemplate)
    note("this model has no chat template: messages go in as plain text (--chat-template NAME picks one)");
  return chosen.chat_template;
}

namespace {

template <typename T>
T parse_number(const std::string& text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    throw_error("'{}' is no {}", text, std::is_integral_v<T> ? "whole number" : "number");
  return value;
}

template <auto Member>
constexpr SamplingSetting param(std::string_view name) {
  using T = std::remove_reference_t<decltype(core::SamplerParams{}.*Member)>;
  return {name, [](const SamplingOptions& o) { return fmt::format("{}", o.params.*Member); },
          [](SamplingOptions& o, const std::string& text) { o.params.*Member = parse_number<T>(text); }};
}

} // namespace

std::span<const SamplingSetting> sampling_settings() {
  using P = core::SamplerParams;
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
      param<&P::seed>("seed"),
      {"predict", [](const SamplingOptions& o) { return fmt::format("{}", o.max_tokens); },
       [](SamplingOptions& o, const std::string& text) { o.max_tokens = parse_number<int64_t>(text); }},
  };
  return kSettings;
}

void TextOptions::add_to(CLI::App& command, const char* text_help) {
  auto* text_option = command.add_option("-p,--prompt", text, text_help)->type_name("TEXT");
  command.add_option("-f,--file", file, "the same from a file, its bytes as they are (-: standard input)")
      ->type_name("FILE")
      ->excludes(text_option);
}

std::string TextOptions::read() const { return file.empty() ? text : read_text_file(file); }

void check_output(const std::string& path, std::initializer_list<std::string> inputs) {
  std::error_code none_there;
  for (const std::string& input : inputs)
    if (std::filesystem::equivalent(path, input, none_there))
      throw_error("{}: is read as well; name another file to write", path);
  const core::AtomicFile trial(path, 0); // of which nothing stays
}

std::string read_text_file(const std::string& path) {
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) throw_error("{}: cannot open: {}", path, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) text.append(buffer, count);
  if (std::ferror(file.get())) throw_error("{}: cannot read: {}", path, std::strerror(errno));
  return text;
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
      throw Error(fmt::format("{}: '{}' is no token id; expected numbers like 1,2,3", flag, text.substr(at, end - at)),
                  Error::kUsage);
    ids.push_back(id);
    at = end;
  }
  if (ids.empty()) throw Error(fmt::format("{}: no token ids", flag), Error::kUsage);
  return ids;
}

} // namespace ridge::app
