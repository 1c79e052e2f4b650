// Saves and restores a stream in its folder, while no sequence has it. Throws Error if the folder is unusable or belongs
// to another model, and if the executor cannot copy caches.
#pragma once

#include "engine/prefixes/prefix_cache.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ridge::engine {

struct StreamFile {
  int64_t tokens = 0, bytes = 0;
};

StreamFile save_stream(core::Executor& executor, const core::Program& program, StreamCache& cache, int32_t number,
                       const std::string& folder, const std::string& model);

std::vector<int32_t> read_saved_tokens(const std::string& folder);
StreamFile restore_stream(core::Executor& executor, const core::Program& program, StreamCache& cache, int32_t number,
                          std::span<const int32_t> tokens, const std::string& folder, const std::string& model);

} // namespace ridge::engine
