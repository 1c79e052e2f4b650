// Apart from core/ops.h, so that kernels that choose experts do not depend on the list of ops.
#pragma once

#include <cstdint>

namespace ridge::core {

// How an expert's share follows from its score. The numbers are those of GGUF's expert_gating_func.
enum class Gate : uint8_t {
  softmax = 1,           // over all experts
  sigmoid = 2,           // of each by itself
  softmax_of_chosen = 3, // the choice is by score
  root_softplus = 4,     // the root of log(1 + exp(score)), of each by itself
};

} // namespace ridge::core
