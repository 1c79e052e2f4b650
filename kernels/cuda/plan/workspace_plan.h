// Sizes of the memory that a batch is computed in (executor/workspace.h).
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/runtime/limits.h"

#include <cstdint>
#include <vector>

namespace ridge::kernels::cuda {

// Bytes unless noted.
struct ValuesPlan {
  std::vector<int64_t> values;          // by slot of Plan::buffers
  std::vector<int64_t> dataflow_offset; // floats per token, by value, then in all
  int64_t dataflow = 0;
};
struct WorkspacePlan : ValuesPlan {
  ValuesPlan adapted;                 // of an adapted plan, without shared values
  std::vector<int32_t> adapted_slots; // by its slots: the slot whose memory it takes, or kNone
  int64_t adapted_x = 0;              // more columns of prompts (gemm/prompt_adapters.h)
  std::vector<int64_t> rope_tables;

  // half_x, exponents: f16 input; glu_half, glu_largest: f16 output of gate and up, and maxima; gate, decoded: each of
  // two buffers; slots: sorted slots and tiles.
  int64_t half_x = 0, glu_half = 0, glu_largest = 0, exponents = 0, gate = 0, decoded = 0, batch_parts = 0, slots = 0;
  int64_t product_bounds = 0;
  int64_t kept_decoded = 0; // at most, in memory that nothing else needs, and not counted
  int64_t most_slots = 0;
  int64_t widest_cols = 0; // without experts

  int64_t attention_partial = 0, latent_partial = 0, index_scores = 0, attention_tickets = 0;
  int64_t unpacked_cache = 0, zero_streams = 0; // a stream's keys and values of a layer in f16; stream 0 of each token

  int64_t bytes() const;
};

WorkspacePlan plan_workspace(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                             const DeviceLimits& limits, const Plan* adapted = nullptr);

} // namespace ridge::kernels::cuda
