// Routing kernels include this instead of core/ops.h.
#pragma once

#include <cstdint>

namespace ridge::core {

// GGUF's expert_gating_func: share by score.
enum class Gate : uint8_t {
  softmax = 1, // over all experts
  sigmoid = 2,
  softmax_of_chosen = 3, // the choice is by score
  root_softplus = 4,     // sqrt(log(1 + exp(score)))
};

} // namespace ridge::core
