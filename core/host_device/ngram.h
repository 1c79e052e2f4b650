// Hashes of a stream's last tokens into table rows.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::core {

// Collects a token and its predecessors. before(i) returns the token i places before, or -1.
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

// `hash`: 64-bit factors per place, low half first; then per head first row and number of rows, 2-grams first.
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
