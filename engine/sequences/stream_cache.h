// What one stream of an executor holds: the tokens in its KV cache, and copies of its recurrent state and of what
// windows see, to go back to. A prompt that begins with these tokens continues behind them.
#pragma once

#include "core/executor.h"
#include "engine/sequences/state_snapshots.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::engine {

// Throws Error for a prompt that is empty, has more tokens than a context, or has a token outside the vocabulary.
void check_prompt(std::span<const int32_t> prompt, int64_t context, int64_t vocab);

class StreamCache {
 public:
  // Both must outlive it, and nobody else may use the stream.
  StreamCache(core::Executor& executor, const core::Program& program, int32_t stream)
      : executor_(executor), stream_(stream), recurrent_(!program.states.empty()), snapshots_(executor, stream) {}

  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t size() const { return std::ssize(tokens_); }
  // How many tokens at the start of `prompt` are in the cache.
  int64_t common(std::span<const int32_t> prompt) const;
  // Behind how many of them it can go on: there, or where a copy was made before.
  int64_t reachable(std::span<const int32_t> prompt) const;

  // Goes back to where evaluating `prompt` (at least one token) continues and returns how many of its tokens are there:
  // what is common, but for its last token, whose logits are wanted. A recurrent state, and what a window has lost,
  // goes back to the last copy.
  int64_t resume(std::span<const int32_t> prompt);
  // Takes over the first `count` tokens of another stream of the executor (core::shares_caches), as many as are
  // reachable() there.
  void take_over(const StreamCache& other, int64_t count);
  // How many tokens of `prompt` the next forward() takes, at most `most`, all before them being here. Copies are taken
  // on the way: of a recurrent state every 4,096 tokens and before a prompt's last token; of what windows see every
  // 16,384, and before that token as soon as it is about to be lost.
  int64_t next_piece(std::span<const int32_t> prompt, int64_t most);
  // A forward() of this stream has evaluated these tokens behind the others.
  void evaluated(std::span<const int32_t> tokens);
  // Drops all but the first `count` tokens. What does not go back by being overwritten does so with the next resume().
  void keep(int64_t count);

 private:
  int64_t reachable(int64_t position) const;
  void return_later(int64_t position);

  core::Executor& executor_;
  const int32_t stream_;
  const bool recurrent_;
  std::vector<int32_t> tokens_;
  StateSnapshots snapshots_;
  // Where a text may be gone on with, ascending, of which no copy was made: the windows still have what is seen there.
  std::vector<int64_t> returns_;
};

} // namespace ridge::engine
