// Ring-buffer KV caches of sliding-window layers.
#pragma once

#include "core/executor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::core {

// Ring sizes are multiples of this, so that attention tiles do not wrap around.
inline constexpr int64_t kRingTile = 32;

// Entry p of a stream is in row p, or p % rows in a ring.
struct CacheRows {
  int64_t rows;
  int64_t window = 0; // positions seen, in a ring
  bool chunked = false;

  bool is_ring() const { return window > 0; }
  int64_t row_of(int64_t entry) const { return is_ring() ? entry % rows : entry; }
  // First position that the token at `position` sees in a ring.
  int64_t first_seen(int64_t position) const {
    return AttentionParams{.window = window, .chunked = chunked}.first_seen(position);
  }
};

// A ring holds a window, a largest batch and config.rewind_tokens tokens. Caches are full if that is not below the
// context, or if texts are evaluated whole.
std::vector<CacheRows> cache_rows(const Program& program, const ExecutorConfig& config);

// Names the rings, which cache blocks leave out: " without 0,2", or empty.
std::string left_out_of_blocks(const Program& program, const ExecutorConfig& config);

// For `tokens` tokens of one stream.
double kv_cache_bytes(const Program& program, const ExecutorConfig& config, int64_t tokens);

// Where streams can resume. A recurrent state has one position; a ring must still hold the window. Position 0 is always
// possible.
class StreamPositions {
 public:
  StreamPositions(const Program& program, const ExecutorConfig& config);

  bool can_resume_at(int32_t stream, int64_t position) const;
  // Moves the streams past the batch. Throws Error if one cannot resume at its first position, or if positions with
  // recurrent state are not consecutive.
  void advance(const Batch& batch);
  // Moves a stream to `end` after device-side decoding.
  void advance(int32_t stream, int64_t end);
  // The stream received the saved state of `position`. Throws Error if out of range.
  void set(int32_t stream, int64_t position);
  // Sets `position` unchecked.
  void set_unchecked(int32_t stream, int64_t position);
  // Rewinds the recurrent state only.
  void return_to(int32_t stream, int64_t position) { streams_[stream].next = position; }
  // Copies all but the recurrent state.
  void copy(int32_t from, int32_t to);
  int64_t of(int32_t stream) const { return streams_[stream].next; }

 private:
  struct Stream {
    int64_t next = 0;        // position of the recurrent state, -1: none
    int64_t restored_at = 0; // last set(): rings hold its window and later positions
    int64_t end = 0;         // end of the positions written since
  };
  bool can_resume_at(const Stream& stream, int64_t position) const;

  bool recurrent_;
  std::vector<CacheRows> rings_;
  std::vector<Stream> streams_;
};

} // namespace ridge::core
