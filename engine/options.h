// Converts request options (api/requests.h) to engine settings.
#pragma once

#include "api/requests.h"
#include "core/executor.h"
#include "engine/loading/loaded_model.h"
#include "engine/prefixes/prefix_cache.h"
#include "text/chat/chat_template.h"

#include <span>
#include <string>
#include <string_view>

namespace ridge::engine {

inline constexpr int64_t kDefaultContext = 8192, kDefaultUbatch = 512;

// trained_context: tokens
core::ExecutorConfig executor_config(const api::ModelOptions& options, int64_t trained_context);

// For several sequences. A batch holds tokens of all their prompts even if contexts are short.
void set_streams(core::ExecutorConfig& config, const api::ModelOptions& options, int64_t streams);

// Both throw a usage Error for an invalid size and for a folder without memory.
void check_prefixes(const api::PrefixOptions& options);
PrefixSettings prefix_settings(const api::PrefixOptions& options, const gguf::File& model, const Notice& warn);

// May be null. Throws Error for invalid JSON.
nlohmann::ordered_json answer_schema(const api::SamplingOptions& options);

// Converts any of three options to GBNF; empty: none. Throws Error for unreadable files and invalid JSON.
std::string grammar_text(const api::SamplingOptions& options);

// The requested template, else the model's, else a default with a notice. Throws Error if it is missing or invalid.
text::ChatTemplate choose_template(const api::TemplateOptions& options, const gguf::File& model, const Notice& notice);

// Sets enable_thinking, thinking and thinking_mode.
void set_thinking(nlohmann::ordered_json& variables, bool on);

// Applies set_thinking(). `notice` reports a switch without effect. Throws Error if the options' JSON is no object.
nlohmann::ordered_json template_variables(const api::TemplateOptions& options, const text::ChatTemplate& chat_template,
                                          const Notice& notice);

struct SamplingSetting {
  std::string_view name;
  std::string (*get)(const api::SamplingOptions&);
  void (*set)(api::SamplingOptions&, const std::string& text); // throws Error for invalid numbers
};
std::span<const SamplingSetting> sampling_settings();

} // namespace ridge::engine
