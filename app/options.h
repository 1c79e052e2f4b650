// Option groups that several commands share, with the names this field's users know.
#pragma once

#include "core/executor.h"
#include "core/sampler.h"
#include "models/text/chat_template.h"

#include <CLI/CLI.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

struct ModelOptions {
  std::string model;
  std::string device = "auto";
  int64_t context = -1;               // -1: kDefaultContext or the model's own, whichever is less; 0: the model's own
  int64_t batch = 2048, ubatch = 512; // the smaller one counts
  int threads = 0;
  int64_t gpu_layers = -1; // for start_executor
  std::string k_type = "f16", v_type = "f16";

  // With a guide, -m may be left out: open_model then takes the built-in one.
  void add_to(CLI::App& command, bool guide = false);
  // trained_context: of the model, tokens.
  core::ExecutorConfig executor_config(int64_t trained_context) const;
};

inline constexpr int64_t kDefaultContext = 8192;

struct SamplingOptions {
  core::SamplerParams params;
  int64_t max_tokens = -1;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::string grammar, grammar_file, json_schema;

  void add_to(CLI::App& command);
  // The GBNF text that the answer is held to, from whichever of the three was given; empty: none.
  std::string grammar_text() const;
};

// One sampling option by the name it has on the command line, as text: for /set.
struct SamplingSetting {
  std::string_view name;
  std::string (*get)(const SamplingOptions&);
  void (*set)(SamplingOptions&, const std::string& text); // throws Error for text that is no number
};
std::span<const SamplingSetting> sampling_settings();

struct TemplateOptions {
  std::string name, file;

  void add_to(CLI::App& command);
  // The template asked for, else the model's own; says so (to stderr) where the model has none.
  models::text::ChatTemplate choose(const gguf::File& model) const;
};

// -p TEXT or -f FILE ("-": standard input): the text of whichever was given.
struct TextOptions {
  std::string text, file;

  void add_to(CLI::App& command, const char* text_help);
  bool given() const { return !text.empty() || !file.empty(); }
  std::string read() const;
};

// The bytes of a file, or of standard input for "-". Throws Error.
std::string read_text_file(const std::string& path);

// Throws Error, before the work that it is for, where a file cannot be written or is one of those that are read.
void check_output(const std::string& path, std::initializer_list<std::string> inputs = {});

// "1,2,3" or "1 2 3" -> numbers. Throws Error (usage) naming the flag and the word.
std::vector<int32_t> parse_ids(const std::string& text, const char* flag);

} // namespace ridge::app
