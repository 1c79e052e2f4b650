// Model options: a path, a local name, or a hub reference. run_cli resolves names after the whole command line is
// valid.
#pragma once

#include "gguf/gguf.h"
#include "hub/reference.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ridge::app {

inline constexpr const char* kModelType = "MODEL";
inline constexpr const char* kLocalModelType = "LOCAL"; // resolved by the command itself

inline constexpr const char* kModelAndTextType = "[MODEL] TEXT";

// Makes the first positional word the model if none is named. A single word is the text if it has spaces or the command
// mostly takes texts, unless text comes from elsewhere. Returns true if the word is alone: it may be meant as a text.
bool take_model_word(CLI::App& command);

// Throws Error as resolve_models().
std::string model_path(const std::string& given, bool or_text = false);

// "SmolLM2 135M Instruct Q8_0", from metadata, or models::model_label().
std::string model_title(const gguf::File& file);

// Replaces names by paths; pulls hf:… and URLs. Throws Error for unknown or ambiguous names and failed pulls. The error
// for an unknown name says how to give a text if `or_text`.
void resolve_models(CLI::App& command, bool or_text = false);

std::vector<std::string> model_names();

// Returns the path. Ctrl-C stops it. `mmproj`: see hub::PullOptions. Throws Error.
std::string pull_model(const hub::Reference& reference, const std::string& mmproj = "");

} // namespace ridge::app
