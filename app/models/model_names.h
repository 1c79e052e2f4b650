// Options that take a model: a path, the name of a model that lies on this machine, or one of a hub, which is pulled.
// All commands mark them by their type, and run_cli puts paths in place of names, once the whole command line is known
// to be right.
#pragma once

#include "gguf/gguf.h"
#include "hub/reference.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ridge::app {

inline constexpr const char* kModelType = "MODEL";      // of such an option
inline constexpr const char* kLocalModelType = "LOCAL"; // of one that takes names only, which are left as they are

inline constexpr const char* kModelAndTextType = "[MODEL] TEXT"; // of words that are a model and then a text

// For a command with such words and with no model named otherwise, the first becomes --model's. A single one is
// the text where it has spaces, or where the command is mostly about texts (`ridge tokenize`), unless the text comes
// from elsewhere.
void take_model_word(CLI::App& command);

// The path of a model that is named by its file, its name or where to pull it from. Throws Error as resolve_models().
std::string model_path(const std::string& given);

// What its makers call a model, and its type: "SmolLM2 135M Instruct Q8_0"; models::model_label() where they do not
// say.
std::string model_title(const gguf::File& file);

// Puts the paths of models in place of names given to such options of `command`, and pulls those that are hf:… or an
// address. Throws Error where no model or several have a name, or a pull fails.
void resolve_models(CLI::App& command);

// The names of the models on this machine, as `ridge models` lists them.
std::vector<std::string> model_names();

// Gets a model, with progress on stderr; Ctrl-C stops it. `mmproj`: its encoder of pictures (hub::PullOptions). Returns
// the model's path. Throws Error.
std::string pull_model(const hub::Reference& reference, const std::string& mmproj = "");

} // namespace ridge::app
