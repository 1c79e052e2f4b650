// The contents of an executor's stream: cached tokens, and copies of recurrent state and windows. A prompt with the
// same prefix continues after it.
#pragma once

#include "core/error.h"
#include "core/executor.h"
#include "engine/pictures/text_pictures.h"
#include "engine/prefixes/prefix_store.h"

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace ridge::engine {

// Host copies of a stream's recurrent state and window contents. Unlike plain KV caches these cannot go back by being
// overwritten, so a session that goes back continues from the last earlier copy.
class StateSnapshots {
 public:
  StateSnapshots(const core::Executor& executor, int32_t stream)
      : elements_(executor.saved_floats()), stream_(stream) {}

  bool needed() const { return elements_ > 0; } // otherwise nothing is saved
  // 0: no copy, the stream starts anew.
  int64_t last_before(int64_t position) const;
  PrefixState at(int64_t position) const;
  PrefixStates all() const;
  // The stream must be able to continue at `position`. If there are too many copies, drops the one with the closest
  // neighbours.
  PrefixState save(core::Executor& executor, int64_t position);
  void load(core::Executor& executor, int64_t position) const {
    executor.load_state(stream_, floats(at(position)), position);
  }
  // Takes over another stream's state after the same tokens.
  void adopt(core::Executor& executor, int64_t position, PrefixState state);
  // Copies of later positions belong to other tokens now.
  void drop_behind(int64_t position);

 private:
  struct Snapshot {
    int64_t position;
    PrefixState state;
  };
  void insert(int64_t position, PrefixState state);
  std::span<const float> floats(const PrefixState& state) const {
    return {state.get(), static_cast<size_t>(elements_)};
  }

  const int64_t elements_;
  const int32_t stream_;
  std::vector<Snapshot> snapshots_;
};

struct PromptTooLong : core::Error {
  int64_t tokens, context;
  PromptTooLong(int64_t tokens, int64_t context)
      : Error(
            fmt::format("the prompt has {} tokens, but the context holds {}: shorten it or raise -c", tokens, context)),
        tokens(tokens), context(context) {}
};

// Throws PromptTooLong, and Error for an empty prompt or tokens that are neither known nor a picture's.
void check_prompt(std::span<const int32_t> prompt, int64_t context, int64_t vocab, const TextPictures& pictures = {});

class StreamCache {
 public:
  // Both must outlive it. Nothing else may use the stream.
  StreamCache(core::Executor& executor, const core::Program& program, int32_t stream)
      : executor_(executor), stream_(stream), block_positions_(core::block_positions(program)),
        recurrent_(!program.states.empty()), snapshots_(executor, stream) {}

  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t size() const { return std::ssize(tokens_); }
  int64_t common(std::span<const int32_t> prompt) const;
  // Number of tokens after which a stream can continue from here: the common prefix if the executor can continue there,
  // else up to the last copy.
  int64_t usable(std::span<const int32_t> tokens) const;

  // Goes back to where `prompt` continues and returns the number of its cached tokens. The last token does not count,
  // since its logits are needed.
  int64_t resume(std::span<const int32_t> prompt);
  // `count` tokens must be usable in `other` and more than are here.
  void take_over(StreamCache& other, int64_t count);
  // save() needs at least `least` tokens more than the store has.
  void save(PrefixStore& store, int64_t least = kWorthKeeping);
  void load(std::span<const int32_t> tokens, const PrefixStore::Start& start);
  // Plans a copy where another prompt will continue, if the cache alone cannot go back.
  void want_copy(int64_t position);
  // Number of tokens for the prompt's next forward(), at most `most`. Makes copies before the last token, at
  // want_copy() positions, and every 4,096 (recurrent state) or 16,384 tokens (windows).
  int64_t next_piece(std::span<const int32_t> prompt, int64_t most);
  void evaluated(std::span<const int32_t> tokens);
  // Drops later tokens. States go back with the next resume().
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
  // Copies are made when the position is reached (recurrent state) or just before windows lose it.
  std::set<int64_t> wanted_copies_;
};

} // namespace ridge::engine
