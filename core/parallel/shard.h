// Tensor parallelism: each executor has a part of the weights and caches.
// Matrices with whole inputs are cut by rows, so their results are parts. Attention heads or gates work on parts until
// a matrix cut by columns makes terms of a sum. Sums pass through additions up to an all_reduce, two per transformer
// layer. Recurrent layers are cut by heads. Norms of whole rows, routing and latent caches are on every rank.
#pragma once

#include "core/program.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace ridge::core {

// Returns the weights per block of a format; blocks are never cut.
using BlockWeights = std::function<int64_t(uint32_t type)>;

struct Shard {
  Program program;
  std::vector<int32_t> origins; // by op: its op in the whole Program; for an exchange, the op of its input
};

// Returns one rank's Program; every rank has the logits. Shares are as even as blocks and heads allow; values with
// fewer of them than ranks stay whole. The weights of `whole` must stay in place. With `sizes_only`, copied weights
// have no data.
Shard shard_program(const Program& whole, int rank, int ranks, const BlockWeights& block_weights,
                    bool sizes_only = false);

} // namespace ridge::core
