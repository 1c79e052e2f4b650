// History with the guide's tokenizer.
#pragma once

#include "engine/loading/loaded_model.h"
#include "support/history_executor.h"

#include <algorithm>
#include <memory>

namespace ridge::tests {

inline engine::LoadedModel open_history(History::Settings settings) {
  engine::LoadedModel model = engine::open_model("");
  settings.vocab = static_cast<int32_t>(model.program.vocab);
  settings.max_batch = std::max<int64_t>(512, settings.streams);
  if (settings.recurrent) model.program.states.push_back({"state", 2});
  model.executor = std::make_unique<History>(settings);
  return model;
}

} // namespace ridge::tests
