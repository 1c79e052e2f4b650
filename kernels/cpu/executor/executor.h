// Runs a Program on the CPU: exact mode is the reference for other executors, fast mode serves machines without a GPU.
#pragma once

#include "core/executor.h"

#include <memory>
#include <string_view>

namespace ridge::kernels::cpu {

// The Program and the mapped file must outlive the executor. Throws Error if check_config does, a weight's type is
// unknown or memory cannot be reserved; std::logic_error if the Program is malformed.
//
// Fast mode (config.exact off) quantizes activations to 8 bits in groups of 32, to 16 bits in Programs where routing,
// position choice or recurrent state amplifies errors. Exact mode multiplies decoded weights with f32.
std::unique_ptr<core::Executor> make_cpu_executor(const core::Program& program, const core::ExecutorConfig& config);

// Bytes that such an executor needs besides weights, with full caches. Allocates nothing; throws like
// make_cpu_executor.
struct MemoryUse {
  int64_t cache, state, scratch; // keys and values; recurrent state; activations
};
MemoryUse memory_use(const core::Program& program, const core::ExecutorConfig& config);

// The instruction set chosen at run time, e.g. "AVX3_DL".
std::string_view instruction_set();

} // namespace ridge::kernels::cpu
