// Runs a Program on the CPU: in exact mode as a reference for other executors, in fast mode where there is no GPU.
#pragma once

#include "core/executor.h"

#include <memory>
#include <string_view>

namespace ridge::kernels::cpu {

// The Program and the file its weights point into must outlive the executor. Throws Error if check_config does, a
// weight's type is unknown or the KV cache does not fit the address space, std::logic_error if the Program is
// malformed.
//
// Fast mode (config.exact off) quantizes the input of every packed matrix to 8 bits in groups of 32 values, to 16 bits
// in Programs whose routing, choice of positions or recurrent state makes large errors of small ones; exact mode
// computes with the decoded weights and f32 activations. Memory beyond the model: the KV cache as far as it is filled,
// plus activations for max_batch tokens.
std::unique_ptr<core::Executor> make_cpu_executor(const core::Program& program, const core::ExecutorConfig& config);

// What such an executor takes of memory beside the weights when its caches are full, in bytes. Plans one and touches
// nothing. Throws what make_cpu_executor throws.
struct MemoryUse {
  int64_t cache, state, scratch; // keys and values; recurrent state; what lies between and inside ops
};
MemoryUse memory_use(const core::Program& program, const core::ExecutorConfig& config);

// The instruction set that run-time dispatch picks, the best of those compiled that this CPU has: "AVX3_DL".
std::string_view instruction_set();

} // namespace ridge::kernels::cpu
