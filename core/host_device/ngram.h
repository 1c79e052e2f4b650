// Rows of a table for the last tokens of a stream: a hash of the tokens, in the same words for all executors.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::core {

// The token and what stands before it, as far as a row depends on it. before(i): the token i places before, or -1.
template <typename Before>
RIDGE_HD void make_ngram(int32_t token, const Before& before, int length, int32_t end_token, int32_t* ngram) {
  ngram[0] = token;
  bool ended = false;
  for (int i = 1; i < length; ++i) {
    const int32_t found = ended ? -1 : before(i);
    ended = found < 0 || found == end_token;
    ngram[i] = ended ? end_token : found;
  }
}

// `hash` has a factor of 64 bits for each place of the n-gram, the lower half first; then of each head its first row
// and its number of rows. The heads of two tokens come first, then those of three.
RIDGE_HD int32_t ngram_row(const int32_t* hash, const int32_t* ngram, int length, int heads_per_length, int head) {
  uint64_t mixed = 0;
  for (int i = 0; i < 2 + head / heads_per_length; ++i) {
    const uint64_t factor =
        static_cast<uint32_t>(hash[2 * i]) | static_cast<uint64_t>(static_cast<uint32_t>(hash[2 * i + 1])) << 32;
    mixed ^= static_cast<uint64_t>(ngram[i]) * factor;
  }
  const int32_t* rows = hash + 2 * length + 2 * head;
  return rows[0] + static_cast<int32_t>(mixed % static_cast<uint64_t>(rows[1]));
}

} // namespace ridge::core
