// A reference model's predictions: `ridge perplexity --kl-divergence-base`.
//
// Per scored position: log-probabilities of the `top` likeliest tokens and the next token, total probability of the
// rest. The default top of 128 needs 1,032 bytes, a 128 k vocabulary at 16 bits 256 KB.
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

// A chunk's first half is context; later positions except the last are scored.
inline constexpr int64_t first_scored(int64_t context) { return context / 2; }
inline constexpr int64_t scored_positions(int64_t context) { return context - 1 - first_scored(context); }

struct LogitsBaseHeader {
  char magic[8] = {'R', 'I', 'D', 'G', 'E', 'K', 'L', 'D'};
  uint32_t version = 1;
  uint32_t vocab = 0, context = 0, chunks = 0, top = 0;
  int32_t bos = -1; // replaces each chunk's first token; -1: none

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
  void add(const TopDistribution& distribution); // in order
  void finish() { file_.commit(); }

 private:
  LogitsBaseHeader header_;
  core::AtomicFile file_;
};

class LogitsBase {
 public:
  // Checks all data. Throws Error with file and place.
  explicit LogitsBase(const std::string& path);

  const LogitsBaseHeader& header() const { return header_; }
  std::span<const int32_t> tokens() const;                 // [chunks * context]
  TopDistribution at(int64_t chunk, int64_t scored) const; // scored: 0 to scored_positions() - 1

 private:
  core::MappedFile file_;
  LogitsBaseHeader header_;
};

} // namespace ridge::measure
