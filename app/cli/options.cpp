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

void add_model_options(CLI::App& command, core::ModelOptions& o, bool guide, bool bare) {
  command
      .add_option(bare ? "-m,--model,model" : "-m,--model", o.model,
                  fmt::format("GGUF file (of a split model: any part), or the name of one that `ridge models` lists{}",
                              guide ? "; default: the built-in guide" : ""))
      ->type_name(kModelType)
      ->required(!guide);
  command.add_option("--device", o.device, "auto (the GPU where there is one), cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->type_name("NAME");
  command
      .add_option("-c,--ctx-size", o.context,
                  fmt::format("context in tokens; 0: all the model was trained for (default: that, at most {})",
                              engine::kDefaultContext))
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->type_name("N");
  add_adapter_options(command, o.adapters);
  const OptionGroup group(command, kMemoryGroup);
  command.add_option("-b,--batch-size", o.batch, "prompt tokens handed to the engine at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--ubatch-size", o.ubatch,
                  fmt::format("of these, evaluated at once (-ub): scratch memory grows with it (default: all where the "
                              "GPU has room, else {})",
                              engine::kDefaultUbatch))
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N");
  command.add_option("-t,--threads", o.threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command
      .add_option("--gpu-layers,--n-gpu-layers", o.gpu_layers,
                  "the last N layers on the GPU, the output being one of them, the rest on the CPU (-ngl); "
                  "default: as many as there is room for")
      ->check(CLI::Range(-1, 1 << 20))
      ->type_name("N");
  add_gpu_room_options(command, {o.experts_on_host, o.gpu_memory, o.host_memory, o.ranks});
  const auto types = CLI::IsMember(core::kv_type_names());
  command
      .add_option("--cache-type-k", o.k_type,
                  "KV cache type of keys: f16, f32, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl (-ctk)")
      ->check(types)
      ->capture_default_str()
      ->type_name("TYPE");
  command.add_option("--cache-type-v", o.v_type, "KV cache type of values, as --cache-type-k (-ctv)")
      ->check(types)
      ->capture_default_str()
      ->type_name("TYPE");
}

void add_adapter_options(CLI::App& command, std::vector<core::AdapterOption>& adapters, const char* help) {
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
                "experts stay in the host's memory, and the GPU keeps copies of those used most; "
                "happens by itself where a model does not fit the GPU")
      ->excludes("--gpu-layers");
  command
      .add_option("--gpu-memory", o.gpu_memory, "take no more of a GPU's memory, such as 8GiB (default: what is free)")
      ->type_name("SIZE");
  command
      .add_option(
          "--host-memory", o.host_memory,
          "of experts in the host's memory, keep no more than this there, such as 16GiB; the others stay in the "
          "file and are read when they are wanted (default: what is free)")
      ->type_name("SIZE");
  command.add_option("--gpus", o.ranks.gpus, "use these GPUs, such as 0,1 (default: as few as hold the model)")
      ->type_name("LIST");
  command
      .add_option("--tensor-parallel", o.ranks.tensor_parallel,
                  "share every layer out to N ranks: one per GPU, or with --device cpu N groups of threads")
      ->check(CLI::Range(1, 64))
      ->excludes("--gpu-layers")
      ->excludes("--cpu-moe")
      ->type_name("N");
  command
      .add_option(
          "--pipeline", o.ranks.pipeline,
          "cut the layers into N stages that run one after the other, each on a GPU of its own, or on as many as "
          "--tensor-parallel says")
      ->check(CLI::Range(1, 64))
      ->excludes("--gpu-layers")
      ->excludes("--cpu-moe")
      ->type_name("N");
}

void add_speculation_options(CLI::App& command, core::ModelOptions& o) {
  const OptionGroup group(command, kAdvancedGroup);
  command
      .add_option(
          "--spec", o.speculation,
          "tokens guessed ahead and checked several in one step, as long as that pays: mtp (the draft heads of the "
          "model's file), ngram (what followed the same words before), draft (what --draft-model says), auto (draft, "
          "mtp or ngram: the first that is there) or off")
      ->check(CLI::IsMember({"auto", "off", "mtp", "ngram", "draft"}))
      ->capture_default_str()
      ->type_name("METHOD");
  command
      .add_option("--draft-model", o.draft_model,
                  "what guesses tokens: a smaller model with the same vocabulary, or an EAGLE-3 head (-md)")
      ->type_name(kModelType);
  command.add_option("--draft-tokens", o.draft_tokens, "guesses in a step (default: as many as pay)")
      ->check(CLI::Range(int64_t{1}, engine::kMaxGuesses))
      ->type_name("N");
}

void add_media_options(CLI::App& command, std::vector<std::string>& files, std::string& mmproj, bool sounds) {
  const auto add = [&](const char* flag, const char* help) { // one list, in command-line order
    command
        .add_option_function<std::string>(
            flag, [&files](const std::string& file) { files.push_back(file); }, help)
        ->trigger_on_parse()
        ->type_name("FILE");
  };
  add("--image", "a picture: JPEG, PNG, WebP, GIF, BMP or PPM; several: again for each");
  if (sounds) add("--audio", "a sound: WAV, or with libsndfile FLAC, MP3 or Ogg; several: again for each");
  command
      .add_option("--mmproj", mmproj,
                  "the GGUF file with the model's encoder of pictures or sounds; none: do without; default: an "
                  "mmproj*.gguf of the "
                  "model that lies beside it")
      ->type_name("FILE");
}

void add_mcp_options(CLI::App& command, McpOptions& options) {
  command
      .add_option("--mcp", options.files,
                  "MCP servers whose tools the model may call, after a question: JSON with \"mcpServers\"; several: "
                  "again for each")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("FILE");
  command
      .add_option("--mcp-server", options.servers,
                  "one MCP server: a name and the command that runs it, \"files=npx -y some-server /home/me\", or its "
                  "address, docs=https://example.org/mcp; several: again for each")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("NAME=COMMAND");
}

void add_prefix_cache_option(CLI::App& command, core::PrefixOptions& options) {
  const OptionGroup group(command, kMemoryGroup);
  command
      .add_option("--prefix-cache", options.size,
                  "memory of the host for prompts and answers that were evaluated, such as 8GiB, for each model; 0: "
                  "none; default: an eighth of it, 8GiB at most")
      ->type_name("SIZE");
}

namespace {

void add_rarer_samplers(CLI::App& command, core::SamplingOptions& o) {
  const auto option = [&](const char* names, auto& variable, const char* setting, const char* help, const char* type) {
    command.add_option(names, variable, help)
        ->capture_default_str()
        ->type_name(type)
        ->each([&o, setting](const std::string&) { o.chosen.emplace_back(setting); });
  };
  core::SamplerParams& p = o.params;
  option("--dry-multiplier", p.dry.multiplier, "dry-multiplier",
         "DRY: penalty on tokens that go on with a repetition; 0: off", "X");
  option("--dry-base", p.dry.base, "dry-base", "the penalty grows so much with each repeated token", "X");
  option("--dry-allowed-length", p.dry.allowed_length, "dry-allowed-length", "repetitions of fewer tokens cost nothing",
         "N");
  option("--dry-penalty-last-n", p.dry.last_n, "dry-penalty-last-n", "how many tokens are searched; 0: none, -1: all",
         "N");
  command
      .add_option_function<std::vector<std::string>>(
          "--dry-sequence-breaker",
          [&p](const std::vector<std::string>& texts) {
            p.dry.breakers = texts;
            std::erase(p.dry.breakers, "none");
          },
          "text over which no repetition is counted (repeatable; none: no text; default: a new line, \":\", \"\\\"\", "
          "\"*\")")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("TEXT");
  option("--top-n-sigma,--top-nsigma", p.top_n_sigma, "top-n-sigma",
         "keep logits within so many standard deviations of the highest; 0 or less: all", "X");
  option("--xtc-probability", p.xtc_probability, "xtc-probability",
         "XTC: how often all but the least of the probable tokens go; 0: never", "P");
  option("--xtc-threshold", p.xtc_threshold, "xtc-threshold", "from where on a token is probable; above 0.5: none is",
         "P");
  option("--dynatemp-range", p.dynatemp_range, "dynatemp-range",
         "the temperature moves so far down and up with the entropy; 0: it stays", "X");
  option("--dynatemp-exp", p.dynatemp_exponent, "dynatemp-exp", "how it moves with the entropy", "X");
  option("--mirostat", p.mirostat, "mirostat",
         "hold the surprise of tokens by version 1 or 2 of Mirostat, in place of all filters; 0: off", "N");
  option("--mirostat-ent", p.mirostat_tau, "mirostat-ent", "the surprise, in bits", "X");
  option("--mirostat-lr", p.mirostat_eta, "mirostat-lr", "how fast Mirostat learns", "X");
  option("--adaptive-target", p.adaptive_target, "adaptive-target",
         "draw tokens of about this probability; below 0: off", "P");
  option("--adaptive-decay", p.adaptive_decay, "adaptive-decay", "how long earlier tokens count for that, up to 0.99",
         "X");
  option("--diffusion-steps", p.diffusion.steps, "diffusion-steps",
         "of a model that writes by diffusion: how often the whole text is evaluated; 0: once for each token", "N");
  option("--diffusion-block", p.diffusion.block, "diffusion-block",
         "tokens that are decided before those behind them; 0: all, -1: as the model's makers have it", "N");
  command
      .add_option_function<std::string>(
          "--diffusion-order", [&p](const std::string& name) { p.diffusion.order = *core::fill_order_of_name(name); },
          "which are decided first: those of most confidence or margin, of least entropy, or random")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(core::kFillOrders), std::end(core::kFillOrders))))
      ->type_name("WORD");
  option("--min-keep", p.min_keep, "min-keep", "top-p, min-p, typical and XTC leave at least so many tokens", "N");
  auto* by_name = command
                      .add_option_function<std::string>(
                          "--samplers",
                          [&o](const std::string& text) {
                            o.params.order = core::parse_order(text, "--samplers");
                            o.chosen.emplace_back("samplers");
                          },
                          fmt::format("samplers in the order in which they run; others are off (default: {})",
                                      core::order_text(core::usual_order())))
                      ->type_name("LIST");
  command
      .add_option_function<std::string>(
          "--sampler-seq,--sampling-seq",
          [&o](const std::string& letters) {
            o.params.order = core::parse_order_letters(letters, "--sampler-seq");
            o.chosen.emplace_back("samplers");
          },
          "the same by letters (edskypmxta)")
      ->type_name("LETTERS")
      ->excludes(by_name);
}

} // namespace

void add_sampling_options(CLI::App& command, core::SamplingOptions& o) {
  const auto option = [&](const char* name, auto& variable, const char* help, const char* type) {
    command.add_option(name, variable, help)
        ->capture_default_str()
        ->type_name(type)
        ->each([&o, name](const std::string&) { o.chosen.emplace_back(name + 2); });
  };
  command.footer("Where the model file states values for samplers, or their order (general.sampling.*),\n"
                 "these are the defaults of their options.");
  command
      .add_option("-n,--predict", o.max_tokens,
                  "tokens to generate (default: until the model ends or the context is full)")
      ->type_name("N");
  const OptionGroup group(command, kSamplingGroup);
  option("--temp", o.params.temp, "temperature; 0: always the most probable token", "X");
  option("--top-k", o.params.top_k, "keep the k most probable tokens; 0: all", "K");
  option("--top-p", o.params.top_p, "keep the most probable tokens of this total probability; 1: all", "P");
  option("--min-p", o.params.min_p, "keep tokens at least this probable relative to the best; 0: all", "P");
  option("--typical", o.params.typical_p, "keep the most typical tokens of this total probability; 1: all", "P");
  option("--repeat-penalty", o.params.repeat_penalty, "penalty on recent tokens; 1: none", "X");
  option("--repeat-last-n", o.params.repeat_last_n, "how many tokens are recent; 0: none, -1: all", "N");
  option("--presence-penalty", o.params.presence_penalty, "subtracted from the logits of recent tokens", "X");
  option("--frequency-penalty", o.params.frequency_penalty, "subtracted once per recent occurrence", "X");
  add_rarer_samplers(command, o);
  command.add_option("-s,--seed", o.params.seed, "random seed; the same seed gives the same text (default: a new one)")
      ->type_name("N");
  command.add_option("--stop", o.stop, "end the answer before this text (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->type_name("TEXT");
  command
      .add_option("--reasoning-budget", o.reasoning_budget,
                  "tokens that a chat's reasoning may have before it is ended; 0: none (default: as many as it takes)")
      ->check(CLI::Range(int64_t{-1}, int64_t{INT32_MAX}))
      ->type_name("N");
  command.add_option("--reasoning-budget-message", o.reasoning_message, "what the reasoning ends with then")
      ->type_name("TEXT");
  command.add_flag("--ignore-eos", o.ignore_eos, "do not stop where the model ends its turn");
  auto* text = command.add_option("--grammar", o.grammar, "hold the answer to this GBNF grammar")->type_name("GBNF");
  auto* file =
      command.add_option("--grammar-file", o.grammar_file, "the same from a file")->type_name("FILE")->excludes(text);
  command.add_option("-j,--json-schema", o.json_schema, "hold the answer to JSON of this schema ({}: any JSON)")
      ->type_name("SCHEMA")
      ->excludes(text)
      ->excludes(file);
}

void add_template_options(CLI::App& command, core::TemplateOptions& o) {
  const OptionGroup group(command, kAdvancedGroup);
  auto* by_name = command
                      .add_option("--chat-template", o.name,
                                  fmt::format("a built-in chat template instead of the model's own: {}",
                                              fmt::join(text::ChatTemplate::builtin_names(), " ")))
                      ->type_name("NAME");
  command.add_option("--chat-template-file", o.file, "a Jinja chat template from a file")
      ->type_name("FILE")
      ->excludes(by_name);
  command
      .add_option("--thinking", o.thinking, "on or off: whether the model reasons first, where its template can say so")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("WORD");
  command
      .add_option("--chat-template-kwargs", o.variables,
                  "further variables for the template, e.g. '{\"reasoning_effort\": \"low\"}'")
      ->type_name("JSON");
}

void TextOptions::add_to(CLI::App& command, const char* text_help) {
  auto* text_option = command.add_option("-p,--prompt", text, text_help)->type_name("TEXT");
  command.add_option("-f,--file", file, "the same from a file, its bytes as they are (-: standard input)")
      ->type_name("FILE")
      ->excludes(text_option);
}

void TextOptions::add_words(CLI::App& command) {
  words_option =
      command
          .add_option("words",
                      "the same without -m and -p: a model and a text in quotes; a text alone is the built-in guide's")
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
    throw Error(fmt::format("'{}': there is a text already, by -p or -f", core::printable(all[0])), Error::kUsage);
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
      throw Error(fmt::format("{}: '{}' is no token id; expected numbers like 1,2,3", flag, text.substr(at, end - at)),
                  Error::kUsage);
    ids.push_back(id);
    at = end;
  }
  if (ids.empty()) throw Error(fmt::format("{}: no token ids", flag), Error::kUsage);
  return ids;
}

} // namespace ridge::app
