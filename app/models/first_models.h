// Models to begin with, and whether a file of some size fits this machine before it is here.
#pragma once

#include "engine/fit/fit.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::app {

struct FirstModel {
  std::string_view name, reference;
  int64_t bytes;       // of its file, and of its encoder of pictures where it has one
  int64_t token_bytes; // that a token reads, about
  std::string_view purpose;
};
std::span<const FirstModel> first_models(); // by size

enum class RunsOn : uint8_t { gpu, gpu_and_cpu, cpu, nothing };
std::string_view words_for(RunsOn runs_on); // "GPU", …
// Where a model would go, by the size of its files alone. Once it is here, engine::fit() says so exactly.
RunsOn runs_on(int64_t file_bytes, const engine::Room& room);

// Those of the table that fit and answer in bearable time, at most six: the largest, but always the smallest, too.
struct FirstChoice {
  std::vector<const FirstModel*> models; // by size
  size_t best = 0;                       // the largest that is quick and soon here
};
FirstChoice first_choice(const engine::Room& room);

} // namespace ridge::app
