// Attention that tokens receive: errors of a token's key and value reach every token that attends to it.
#pragma once

#include "core/ops.h"
#include "core/program.h"

#include <span>

namespace ridge::convert {

// Adds each token's attention to the tokens of its chunk, summed over tokens, mean of heads. A chunk starts at position
// 0. q: [tokens][heads * k_dim], k: [tokens][kv heads * k_dim]; sinks: [heads] or empty. Not for biases by distance.
void add_attention_shares(const core::AttentionParams& params, const core::KvLayer& kv, std::span<const float> q,
                          std::span<const float> k, std::span<const float> sinks, std::span<float> received);

} // namespace ridge::convert
