// The base file of `ridge perplexity --kl-divergence-base`: what a reference model said of a text, small enough to
// keep.
//
// Per scored position it holds the `top` likeliest tokens with their log-probabilities, the actual next token's
// log-probability and the probability of all other tokens together: 8 + 8 * top bytes, whatever the vocabulary. With
// the default 128 that is 1,032 bytes; all probabilities of a 128 k vocabulary at 16 bits would be 256 KB.
//
// Layout, little-endian: Header; int32 tokens[chunks * context]; then per chunk and scored position float32 next,
// float32 tail, {int32 id, float32 log-probability}[top].
#pragma once

#include "core/files/atomic_file.h"
#include "core/files/mapped_file.h"
#include "measure/divergence.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ridge::measure {

// The first half of a chunk only gives context; each later position but the last is scored on its successor.
inline constexpr int64_t first_scored(int64_t context) { return context / 2; }
inline constexpr int64_t scored_positions(int64_t context) { return context - 1 - first_scored(context); }

struct LogitsBaseHeader {
  char magic[8] = {'R', 'I', 'D', 'G', 'E', 'K', 'L', 'D'};
  uint32_t version = 1;
  uint32_t vocab = 0, context = 0, chunks = 0, top = 0;
  int32_t bos = -1; // token that each chunk begins with instead of its own; -1: none

  uint64_t token_bytes() const { return uint64_t{4} * chunks * context; }
  uint64_t record_bytes() const { return 8 + uint64_t{8} * top; }
  uint64_t file_bytes() const {
    return sizeof(LogitsBaseHeader) + token_bytes() + record_bytes() * chunks * scored_positions(context);
  }
};
static_assert(sizeof(LogitsBaseHeader) == 32);

class LogitsBaseWriter {
 public:
  LogitsBaseWriter(const std::string& path, const LogitsBaseHeader& header, std::span<const int32_t> tokens);
  void add(const TopDistribution& distribution); // positions in order
  void finish() { file_.commit(); }

 private:
  LogitsBaseHeader header_;
  core::AtomicFile file_;
};

class LogitsBase {
 public:
  // Checks everything: sizes, ids, probabilities. Throws Error naming the file and the place.
  explicit LogitsBase(const std::string& path);

  const LogitsBaseHeader& header() const { return header_; }
  std::span<const int32_t> tokens() const;                 // [chunks * context]
  TopDistribution at(int64_t chunk, int64_t scored) const; // scored: 0 to scored_positions() - 1

 private:
  core::MappedFile file_;
  LogitsBaseHeader header_;
};

} // namespace ridge::measure
