// What one stream of an executor holds: the tokens in its KV cache, and copies of its recurrent state to go back to. A
// prompt that begins with these tokens continues behind them.
#pragma once

#include "core/executor.h"
#include "engine/sequences/state_snapshots.h"

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace ridge::engine {

// Throws Error for a prompt that is empty, has more tokens than a context, or has a token outside the vocabulary.
void check_prompt(std::span<const int32_t> prompt, int64_t context, int64_t vocab);

class StreamCache {
 public:
  // Both must outlive it, and nobody else may use the stream.
  StreamCache(core::Executor& executor, const core::Program& program, int32_t stream)
      : executor_(executor), stream_(stream), block_positions_(core::block_positions(program)),
        snapshots_(program, stream) {}

  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t size() const { return std::ssize(tokens_); }
  // How many tokens at the start of `prompt` are in the cache.
  int64_t common(std::span<const int32_t> prompt) const;

  // Goes back to where evaluating `prompt` (at least one token) continues and returns how many of its tokens are there:
  // what is common, but for its last token, whose logits are wanted. A recurrent state goes back to its last copy.
  int64_t resume(std::span<const int32_t> prompt);
  // Behind how many of these tokens a stream can start with what is here. A recurrent state starts at its copies; that
  // of resume() may also be where this stream is now.
  int64_t usable(std::span<const int32_t> tokens) const;
  // Takes over the first `count` tokens of another stream of the executor, which are usable there.
  void take_over(const StreamCache& other, int64_t count);
  // Copies what the stream holds into the store, and what the store has of `tokens` into the stream: all of start's.
  void save(PrefixStore& store);
  void load(std::span<const int32_t> tokens, const PrefixStore::Start& start);
  // A recurrent state is to be copied there on the way: another prompt goes on from there.
  void copy_state_at(int64_t position) { wanted_copies_.insert(position); }
  // How many tokens of `prompt` the next forward() takes, at most `most`, all before them being here. Copies of a
  // recurrent state are taken on the way: every 4,096 tokens, before a prompt's last token,
  // and at copy_state_at().
  int64_t next_piece(std::span<const int32_t> prompt, int64_t most);
  // A forward() of this stream has evaluated these tokens behind the others.
  void evaluated(std::span<const int32_t> tokens);
  // Drops all but the first `count` tokens. A recurrent state then goes back with the next resume().
  void keep(int64_t count);

 private:
  int64_t first_kept() const;

  core::Executor& executor_;
  const int32_t stream_;
  const int64_t block_positions_;
  std::vector<int32_t> tokens_;
  std::set<int64_t> wanted_copies_; // of the state, at these positions
  int64_t state_position_ = 0;      // how many the recurrent state has seen: more than are here after keep()
  StateSnapshots snapshots_;
};

} // namespace ridge::engine
