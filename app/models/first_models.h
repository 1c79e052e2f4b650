// Recommended models, and an estimated fit before download.
#pragma once

#include "engine/loading/fit.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::app {

struct FirstModel {
  std::string_view name, reference;
  int64_t bytes;       // with the picture encoder
  int64_t token_bytes; // approximate bytes read per token
  std::string_view purpose;
};
std::span<const FirstModel> first_models(); // by size

enum class RunsOn : uint8_t { gpu, gpu_and_cpu, cpu, nothing };
std::string_view words_for(RunsOn runs_on);
// Estimated from file sizes; see engine::fit().
RunsOn runs_on(int64_t file_bytes, const engine::Room& room);

// At most six that fit and are fast enough: the largest, and the smallest.
struct FirstChoice {
  std::vector<const FirstModel*> models; // by size
  size_t best = 0;                       // largest that is fast and downloads quickly
};
FirstChoice first_choice(const engine::Room& room);

} // namespace ridge::app
