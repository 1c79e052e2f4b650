// How large the device memory is that a batch is computed in: values, and the scratch of products and attention. The
// executor allocates it by these numbers (executor/workspace.h), and plans of memory count it by them.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/runtime/limits.h"

#include <cstdint>
#include <vector>

namespace ridge::kernels::cuda {

// In bytes, but for what says otherwise. It depends on the Program, the configuration and the chip, not on the batch.
struct WorkspacePlan {
  std::vector<int64_t> values;          // by slot of Plan::buffers
  std::vector<int64_t> dataflow_offset; // by value, and at the end of all: floats of a token
  int64_t dataflow = 0;
  std::vector<int64_t> rope_tables;

  // For matrix products: the input as f16 with an exponent per row; gate and up, each, where the product does not gate;
  // two buffers of decoded weights; sums of small batches over some columns; experts' slots in the order of their
  // experts, and tiles of them.
  // And what gate and up write as f16, with the largest value of each row.
  int64_t half_x = 0, glu_half = 0, glu_largest = 0, exponents = 0, gate = 0, decoded = 0, batch_parts = 0, slots = 0;
  int64_t product_bounds = 0; // by weight
  int64_t most_slots = 0;     // a number
  int64_t widest_cols = 0;    // of a matrix that is no expert's: columns

  int64_t attention_partial = 0, latent_partial = 0, index_scores = 0, attention_tickets = 0;

  int64_t bytes() const; // of all
};

WorkspacePlan plan_workspace(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                             const DeviceLimits& limits);

} // namespace ridge::kernels::cuda
