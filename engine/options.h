// What the engine makes of the options that a request carries (core/requests.h).
#pragma once

#include "core/executor.h"
#include "core/requests.h"
#include "engine/loaded_model.h"
#include "engine/sequences/prefix_cache.h"
#include "text/chat/chat_template.h"

#include <span>
#include <string>
#include <string_view>

namespace ridge::engine {

inline constexpr int64_t kDefaultContext = 8192, kDefaultUbatch = 512; // tokens

// The executor that the options ask for; trained_context: of the model, tokens.
core::ExecutorConfig executor_config(const core::ModelOptions& options, int64_t trained_context);

// The same for so many sequences at once. A step takes tokens of all their prompts, also where contexts are short.
void set_streams(core::ExecutorConfig& config, const core::ModelOptions& options, int64_t streams);

// Where the options keep prompts of a model. Both throw a usage Error for a size that is none, and for a folder without
// memory.
void check_prefixes(const core::PrefixOptions& options);
PrefixSettings prefix_settings(const core::PrefixOptions& options, const gguf::File& model, const Notice& warn);

// The JSON schema that the answer is to satisfy; null: none. Throws Error where the option is no JSON.
nlohmann::ordered_json answer_schema(const core::SamplingOptions& options);

// The GBNF text that constrains the answer, from whichever of the three options was given; empty: none. Throws Error
// where a file cannot be read or a schema is no JSON.
std::string grammar_text(const core::SamplingOptions& options);

// The template asked for, else the model's own. `notice` gets one line where the model has none. Throws Error where
// there is no such template or it does not parse.
text::ChatTemplate choose_template(const core::TemplateOptions& options, const gguf::File& model, const Notice& notice);

// Switches reasoning on or off in a template's variables, by all names that templates call the switch:
// enable_thinking, thinking and thinking_mode.
void set_thinking(nlohmann::ordered_json& variables, bool on);

// The variables that the options hand to a template, as a JSON object. `thinking` is set_thinking's. `notice` gets one
// line where the switch changes nothing. Throws Error where the options' JSON is no object.
nlohmann::ordered_json template_variables(const core::TemplateOptions& options, const text::ChatTemplate& chat_template,
                                          const Notice& notice);

// One sampling option as text, by the name it has on the command line: for /set.
struct SamplingSetting {
  std::string_view name;
  std::string (*get)(const core::SamplingOptions&);
  void (*set)(core::SamplingOptions&, const std::string& text); // throws Error for text that is no number
};
std::span<const SamplingSetting> sampling_settings();

} // namespace ridge::engine
