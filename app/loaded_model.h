// A model file with everything that is made from it, in the order of dependence.
#pragma once

#include "core/executor.h"
#include "gguf/gguf.h"
#include "models/text/tokenizer.h"

#include <memory>
#include <string>

namespace ridge::app {

struct LoadedModel {
  gguf::File file;
  core::Program program;                                  // points into file
  std::unique_ptr<models::text::Tokenizer> tokenizer;     // null where the file has none
  std::unique_ptr<core::Executor> executor;               // runs program

  // The tokenizer, or an Error that says the file has none.
  const models::text::Tokenizer& need_tokenizer() const;
};

// Null where the file has none.
std::unique_ptr<models::text::Tokenizer> find_tokenizer(const gguf::File& file);

// Builds the Program and the tokenizer; no executor yet.
LoadedModel open_model(gguf::File file);
inline LoadedModel open_model(const std::string& path) { return open_model(gguf::File::open(path)); }
// Brings the weights into memory with a progress bar, so that a big file's first answer does not seem to hang. Does
// nothing for a model that would not fit.
void read_ahead(const LoadedModel& model);
void start_executor(LoadedModel& model, const core::ExecutorConfig& config);

} // namespace ridge::app
