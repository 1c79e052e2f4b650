// Runs a Program on the CPU, as exact reference or in fast mode.
#pragma once

#include "core/executor.h"

#include <memory>
#include <string_view>

namespace ridge::kernels::cpu {

// The Program and the mapped file must outlive the executor. Throws Error if check_config does, a weight's type is
// unknown or memory cannot be reserved; std::logic_error if the Program is malformed.
//
// Fast mode (config.exact off) quantizes activations to 8 bits in groups of 32, to 16 bits for queries, keys and values
// and where routing, position choice or recurrent state amplifies errors. Exact mode uses f32.
std::unique_ptr<core::Executor> make_cpu_executor(const core::Program& program, const core::ExecutorConfig& config);

// Bytes besides weights with full caches. Allocates nothing; throws like make_cpu_executor.
struct MemoryUse {
  int64_t cache, state, scratch; // keys and values; recurrent state; activations
};
MemoryUse memory_use(const core::Program& program, const core::ExecutorConfig& config);

// Chosen at run time, e.g. "AVX3_DL" or "NEON i8mm".
std::string_view instruction_set();

} // namespace ridge::kernels::cpu
