// The user's options for the model, sampling and the template, independent of the front end.
#pragma once

#include "core/executor.h"
#include "core/sampler.h"
#include "engine/loaded_model.h"
#include "text/chat/chat_template.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

inline constexpr int64_t kDefaultContext = 8192;

struct ModelOptions {
  std::string model; // a file; empty: the built-in guide
  std::string device = "auto";
  int64_t context = -1; // tokens; -1: the lesser of kDefaultContext and the model's own; 0: the model's own
  int64_t batch = 2048, ubatch = 512; // the smaller one counts
  int threads = 0;
  int64_t gpu_layers = -1; // for start_executor
  std::string k_type = "f16", v_type = "f16";

  // trained_context: of the model, tokens.
  core::ExecutorConfig executor_config(int64_t trained_context) const;
};

struct SamplingOptions {
  core::SamplerParams params;
  int64_t max_tokens = -1;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::string grammar, grammar_file, json_schema;

  // The GBNF text that restricts the answer, from the one of the three that is set; empty: none.
  std::string grammar_text() const;
};

// One sampling option by the name it has on the command line, as text: for /set.
struct SamplingSetting {
  std::string_view name;
  std::string (*get)(const SamplingOptions&);
  void (*set)(SamplingOptions&, const std::string& text); // throws Error for text that is not a number
};
std::span<const SamplingSetting> sampling_settings();

struct TemplateOptions {
  std::string name, file;

  // The template asked for, else the model's own. Calls `notice` where the model has none.
  text::ChatTemplate choose(const gguf::File& model, const Notice& notice) const;
};

} // namespace ridge::engine
