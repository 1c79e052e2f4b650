// The sampler chain where the logits are (core/sampler.h says what it computes): penalties, top-k, top-p, min-p,
// temperature, draw, and the acceptance of the token, without the host.
#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

inline constexpr int kSampleChunks = 2048; // pieces of the vocabulary whose best logits are compared first
inline constexpr int kMaxTopK = 256;
inline constexpr int kChosenSlots = 32; // of the host's memory, for tokens that it has not read yet

// In device memory, so that a captured launch serves any settings.
struct SampleState {
  float temp, top_p, min_p;
  float repeat_penalty, presence_penalty, frequency_penalty;
  int32_t top_k;     // 1 to kMaxTopK; 1 where temp is 0
  int32_t penalties; // whether there are any
  int32_t ring_size; // tokens that penalties count: the last so many, 0 none, -1 all
  int32_t ring_filled, ring_oldest;
  uint64_t seed, draws;
  int32_t step;    // tokens chosen
  int32_t refuted; // whether the last token was not what had been guessed
};

struct SampleArgs {
  const float* logits; // [vocab]
  int64_t vocab;
  SampleState* state;
  int32_t* counts;   // [vocab] occurrences among the tokens that penalties count
  int32_t* ring;     // [ring_size] those tokens
  float* chunk_best; // [kSampleChunks] zero before and after
  uint64_t* list;    // [vocab]
  // In the host's memory: the token of step i at chosen[i % kChosenSlots], or -1 where logits are NaN or none is above
  // -infinity; and the steps so far.
  int32_t *chosen, *steps;
  // The next step of a generating loop, or null: the token (0 for -1), its position, behind that of the row, and its
  // index among the step's tokens, 0, go here.
  int32_t *token, *position, *output;
  const int32_t* row_position;
  // Where the tokens behind this row are guesses: `guess` is the one to follow, null behind the last row. A row
  // `behind` another is left out where the guess that it follows was refuted.
  const int32_t* guess;
  bool behind;
};
void launch_sample(const Launch&, const SampleArgs&);

// A token of each of `rows` rows of logits, each row with a state, scratch and a place of the chosen token of its own,
// which lie behind those of the row before. There are no penalties, and nothing but the tokens is written.
void launch_sample_rows(const Launch&, const SampleArgs& first, int rows);

} // namespace ridge::kernels::cuda
