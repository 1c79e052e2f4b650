// The sampler chain (core/sampler.h) on the device.
#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

inline constexpr int kSampleChunks = 2048; // chunks of the vocabulary
inline constexpr int kMaxTopK = 256;
inline constexpr int kChosenSlots = 32; // tokens that the host has not read

// In device memory: a captured launch serves any settings.
struct SampleState {
  float temp, top_p, min_p;
  float repeat_penalty, presence_penalty, frequency_penalty;
  int32_t top_k; // 1 to kMaxTopK
  int32_t penalties;
  int32_t ring_size; // counted tokens; 0: none, -1: all
  int32_t ring_filled, ring_oldest;
  uint64_t seed, draws;
  int32_t step;
  int32_t draft_rejected; // the last draft token was wrong
};

struct SampleArgs {
  const float* logits;
  int64_t vocab;
  SampleState* state;
  int32_t* counts;   // [vocab]
  int32_t* ring;     // [ring_size]
  float* chunk_best; // [kSampleChunks] zero before and after
  uint64_t* list;    // [vocab]
  // On the host: step i's token at chosen[i % kChosenSlots] (-1: NaN or all -infinity); number of steps.
  int32_t *chosen, *steps;
  // The next step's token (0 for -1), position and index, or null.
  int32_t *token, *position, *output;
  const int32_t* row_position;
  // The following draft token, null behind the last row. `follows_draft`: skipped if the previous draft token was
  // wrong.
  const int32_t* draft_token;
  bool follows_draft;
};
void launch_sample(const Launch&, const SampleArgs&);

// Rows, states, scratch and tokens are consecutive. No penalties.
void launch_sample_rows(const Launch&, const SampleArgs& first, int rows);

} // namespace ridge::kernels::cuda
