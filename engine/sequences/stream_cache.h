// What one stream of an executor holds: the tokens in its KV cache, and copies of its recurrent state and of what
// windows see, to go back to. A prompt that begins with these tokens continues behind them.
#pragma once

#include "core/error.h"
#include "core/executor.h"
#include "engine/pictures/text_pictures.h"
#include "engine/sequences/state_snapshots.h"

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace ridge::engine {

struct PromptTooLong : core::Error {
  int64_t tokens, context;
  PromptTooLong(int64_t tokens, int64_t context)
      : Error(fmt::format("the prompt has {} tokens, the context holds {}: shorten it or raise -c", tokens, context)),
        tokens(tokens), context(context) {}
};

// Throws PromptTooLong for a prompt of more tokens than a context, and Error for one that is empty or has a token
// outside the vocabulary, that is no picture's.
void check_prompt(std::span<const int32_t> prompt, int64_t context, int64_t vocab, const TextPictures& pictures = {});

class StreamCache {
 public:
  // Both must outlive it, and nothing else may use the stream.
  StreamCache(core::Executor& executor, const core::Program& program, int32_t stream)
      : executor_(executor), stream_(stream), block_positions_(core::block_positions(program)),
        recurrent_(!program.states.empty()), snapshots_(executor, stream) {}

  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t size() const { return std::ssize(tokens_); }
  // How many tokens at the start of `prompt` are in the cache.
  int64_t common(std::span<const int32_t> prompt) const;
  // Behind how many of these tokens a stream can go on with what is here: all that are in the cache, where the executor
  // can go on there, else those before the last copy.
  int64_t usable(std::span<const int32_t> tokens) const;

  // Goes back to where evaluating `prompt` (at least one token) continues and returns how many of its tokens are there:
  // what is usable, but for its last token, whose logits are wanted.
  int64_t resume(std::span<const int32_t> prompt);
  // Takes over the first `count` tokens of another stream of the executor, which are usable there and more than are
  // here.
  void take_over(StreamCache& other, int64_t count);
  // Copies what the stream holds into the store, unless that is less than `least` tokens more than are there, and what
  // the store has of `tokens` into the stream: all of start's.
  void save(PrefixStore& store, int64_t least = kWorthKeeping);
  void load(std::span<const int32_t> tokens, const PrefixStore::Start& start);
  // Another prompt goes on from there. What that takes is copied on the way, where a cache alone does not go back.
  void want_copy(int64_t position);
  // How many tokens of `prompt` the next forward() takes, at most `most`, all before them being here. Copies are taken
  // on the way: before a prompt's last token and at want_copy(), and of a recurrent state every 4,096 tokens, of what
  // windows see every 16,384.
  int64_t next_piece(std::span<const int32_t> prompt, int64_t most);
  // A forward() of this stream has evaluated these tokens behind the others.
  void evaluated(std::span<const int32_t> tokens);
  // Drops all but the first `count` tokens. What does not go back by being overwritten does so with the next resume().
  void keep(int64_t count);

 private:
  void want_distant_copy(int64_t position);
  void copy_before(int64_t end);
  PrefixState copy_of(int64_t position);

  core::Executor& executor_;
  const int32_t stream_;
  const int64_t block_positions_;
  const bool recurrent_;
  std::vector<int32_t> tokens_;
  StateSnapshots snapshots_;
  // Positions at which a copy is to be made: of a recurrent state when it is there, of what windows see when they are
  // about to lose it.
  std::set<int64_t> wanted_copies_;
};

} // namespace ridge::engine
