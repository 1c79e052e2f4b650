// A conversation with a model: tokens in, tokens out. The session remembers what the KV cache holds and evaluates only
// what is new, so a chat's next turn costs its own tokens and not the whole history.
#pragma once

#include "core/executor.h"
#include "core/sampler.h"
#include "engine/sequences/sequence.h"
#include "engine/sequences/stream_cache.h"
#include "engine/sequences/usage.h"
#include "engine/speculation/speculator.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ridge::engine {

class Session {
 public:
  // Both must outlive the session. An executor serves one session, on stream 0.
  Session(core::Executor& executor, const core::Program& program)
      : executor_(executor), program_(program), cache_(executor, program, 0) {}

  // Lets generate() check guesses of several tokens in one step, as many as the executor has outputs for. The tokens
  // are those that it would give without, as far as the executor's logits do not depend on how many it evaluates
  // together.
  void speculate(std::unique_ptr<Speculator> speculator) { speculator_ = std::move(speculator); }
  const Speculator* speculator() const { return speculator_.get(); } // null: none

  // Makes the cache hold exactly `tokens` (at least one), evaluating what it does not hold yet; afterwards logits() are
  // those of the last token. progress(done, total) is called between batches. Returns false when `cancel` was raised
  // meanwhile; the cache then holds the part that was done. Throws Error if the tokens do not fit the context or one is
  // outside the vocabulary.
  bool evaluate(std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr,
                const std::function<void(int64_t, int64_t)>& progress = {});

  // Samples up to `limit` tokens after the evaluated prompt (limit < 0: until the context is full). on_token sees each
  // token before it is evaluated and returns false to stop after it; is_end says which tokens end a turn (they are not
  // passed on). What was sampled is in tokens() afterwards, end tokens too.
  struct Options {
    int64_t limit = -1;
    std::function<bool(int32_t)> is_end;
    std::function<bool(int32_t)> on_token;
    const std::atomic<bool>* cancel = nullptr;
    core::TokenMask* mask = nullptr;
    std::function<void(int32_t)> on_accept; // e.g. to advance a grammar
    // Sees each token with the logits it was chosen from; the host then samples, even if the executor could.
    std::function<void(int32_t, std::span<const float>)> on_choice;
  };
  StopReason generate(core::Sampler& sampler, const Options& options);

  std::span<const float> logits() { return executor_.logits(0); }
  std::span<const int32_t> tokens() const { return tokens_; } // in the cache, or sampled and about to be
  int64_t context() const { return executor_.config().context; }
  int64_t cached_tokens() const { return cache_.size(); }
  void keep(int64_t count); // drops all but the first `count` of them

  const Usage& prompt_usage() const { return prompt_; }         // of the last evaluate()
  const Usage& generation_usage() const { return generation_; } // of the last generate()

 private:
  // The answer that generate() works on.
  struct Answer {
    core::Sampler& sampler;
    const Options& options;
    int64_t tokens = 0;
    bool decoding = false;   // the executor chooses the tokens itself
    bool awaits = false;     // it has chosen a token, or is about to, that was not taken yet
    int64_t evaluating = -1; // the position that it evaluates for that; -1: none
  };

  double bytes_of(int64_t tokens, int64_t position, int64_t outputs) const; // that one forward() moves
  void forward(int64_t count, bool want_logits, Usage& usage);              // evaluates the next `count` of tokens_
  void hand_over_rows(int64_t position, int64_t most);
  std::optional<StopReason> step(Answer& answer);
  std::optional<StopReason> await(Answer& answer);
  void decode_on(Answer& answer);
  std::optional<StopReason> check(Answer& answer, std::span<const int32_t> guesses);
  std::span<const int32_t> evaluate_guesses(const Answer& answer, std::span<const int32_t> tokens, int64_t guesses);
  int32_t choose(Answer& answer, int64_t output);
  std::optional<StopReason> take(Answer& answer, int32_t token);
  int64_t most_guesses(const Answer& answer, int64_t known) const;
  std::vector<int32_t> guess(const Answer& answer);
  void count(int64_t taken, int64_t evaluated, int64_t outputs, int64_t position, double seconds);

  core::Executor& executor_;
  const core::Program& program_;
  std::vector<int32_t> tokens_;
  StreamCache cache_; // holds the first of tokens_
  std::unique_ptr<Speculator> speculator_;
  Usage prompt_, generation_;
};

} // namespace ridge::engine
