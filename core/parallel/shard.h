// A Program shared out to several executors, each with a part of its weights and caches (tensor parallelism).
//
// A matrix whose input all ranks have gives each rank some of its rows, so of its result a rank has a part. What
// follows works on that part, such as the heads of attention or the gates of a feed-forward, until a matrix takes it:
// of that one a rank has some columns, and its result is a term of a sum over all ranks. Sums pass through additions
// until something needs the whole; an all_reduce stands there. So a transformer layer has two of them. Recurrent layers
// are shared out by heads, as attention is. What cannot be shared out is computed by every rank: norms over whole rows,
// routing, latent caches.
#pragma once

#include "core/program.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace ridge::core {

// What shard_program has to know of a format: the weights of a block, which a rank has whole or not at all.
using BlockWeights = std::function<int64_t(uint32_t type)>;

struct Shard {
  Program program;
  std::vector<int32_t> origins; // by op: the op of the whole Program that it stands for; of an exchange, whose result
};

// The Program of rank `rank` of `ranks`. All of them together compute what the whole one does, every rank has the
// logits. The whole Program's weights must stay where they are. Shares are as even as blocks and heads allow; what
// has fewer of them than there are ranks is not shared out.
// With `sizes_only` no weights are copied: where they would be, there is no data.
Shard shard_program(const Program& whole, int rank, int ranks, const BlockWeights& block_weights,
                    bool sizes_only = false);

} // namespace ridge::core
