#pragma once

#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {

struct Batch {
  const int32_t *positions, *streams;
  int tokens;
  Sequences::Kind kind;
};

// Iterates from next(-1) until next() is the number of tokens.
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
  // A stream's first token starts from a zero state.
  __device__ __forceinline__ bool starts(int token) const { return batch.positions[token] == 0; }
};

} // namespace ridge::kernels::cuda
