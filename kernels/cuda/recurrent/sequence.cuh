// How the kernels of recurrent ops go through the tokens of their sequence (Sequences in ops.h).
#pragma once

#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {

struct Batch {
  const int32_t *positions, *streams;
  int tokens;
  Sequences::Kind kind;
};

// The tokens of sequence `index`, from next(-1) on, until next() is the number of tokens.
struct Sequence {
  const Batch& batch;
  int index;

  __device__ __forceinline__ int next(int token) const {
    if (batch.kind == Sequences::Kind::token_each) return token < 0 ? index : batch.tokens;
    ++token;
    if (batch.kind == Sequences::Kind::mixed)
      while (token < batch.tokens && batch.streams[token] != index) ++token;
    return token;
  }
  // Whether the token is the first of its stream: the state before it is zero.
  __device__ __forceinline__ bool starts(int token) const { return batch.positions[token] == 0; }
};

} // namespace ridge::kernels::cuda
