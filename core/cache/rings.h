// KV caches that hold only a window: where all that reads a layer looks at a window, positions share rows in turn.
#pragma once

#include "core/executor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::core {

// Rings have a multiple of so many rows: tiles of attention need not wrap around inside.
inline constexpr int64_t kRingTile = 32;

// The rows that a stream's heads have in a layer's cache. Entry p lies in row p, in a ring in row p % rows.
struct CacheRows {
  int64_t rows;
  int64_t window = 0; // of a ring: positions that a token sees
  bool chunked = false;

  bool is_ring() const { return window > 0; }
  int64_t row_of(int64_t entry) const { return is_ring() ? entry % rows : entry; }
  // In a ring: the first position that the token at `position` sees.
  int64_t first_seen(int64_t position) const {
    return AttentionParams{.window = window, .chunked = chunked}.first_seen(position);
  }
};

// By KV layer. A ring has room for what the first token of the largest batch sees, for the batch, and for
// config.going_back tokens more. A cache is whole where that is no less than the context, or a text is read at once.
std::vector<CacheRows> cache_rows(const Program& program, const ExecutorConfig& config);

// Which KV layers are left out of an executor's blocks, because they are rings: " without 0,2"; empty: none.
std::string left_out_of_blocks(const Program& program, const ExecutorConfig& config);

// Bytes of KV cache that so many tokens of one stream fill.
double kv_cache_bytes(const Program& program, const ExecutorConfig& config, int64_t tokens);

// Where the streams of an executor can go on. A recurrent state is that of one position. A ring has lost what was
// overwritten, so it goes on only where all that is seen from there is left. Position 0 is always possible.
class StreamPositions {
 public:
  StreamPositions(const Program& program, const ExecutorConfig& config);

  bool continues_at(int32_t stream, int64_t position) const;
  // Throws Error if the batch has a stream that cannot go on there, or, where there is recurrent state, whose tokens
  // are not in sequence; else the streams are behind the batch's tokens.
  void advance(const Batch& batch);
  // The stream goes on by itself, up to before `end`.
  void advance(int32_t stream, int64_t end);
  // The stream was given what it has to have to go on at `position`, and nothing more. Throws Error if it is none.
  void set(int32_t stream, int64_t position);
  // The stream goes on at `position` whether it can or not.
  void assume(int32_t stream, int64_t position);
  // The recurrent state is again that of `position`, where the stream was before. Rings stay as they are.
  void return_to(int32_t stream, int64_t position) { streams_[stream].next = position; }
  // `to` got all that `from` has, but for a recurrent state: it has none now.
  void copy(int32_t from, int32_t to);
  int64_t of(int32_t stream) const { return streams_[stream].next; }

 private:
  struct Stream {
    int64_t next = 0;  // where the recurrent state goes on; -1: nowhere
    int64_t given = 0; // the position at which set() was: rings have what it sees and what came behind
    int64_t end = 0;   // behind the last position that was written since
  };
  bool continues_at(const Stream& stream, int64_t position) const;

  bool recurrent_;
  std::vector<CacheRows> rings_;
  std::vector<Stream> streams_;
};

} // namespace ridge::core
