// A conversation with a model: prompts in, tokens out, on the caller's thread. It is a scheduler that no other caller
// submits to. What the caches hold of a prompt is not evaluated again, so a chat's next turn costs its own tokens and
// not the whole history, and going back to where the conversation was costs nothing.
#pragma once

#include "engine/sequences/scheduler.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace ridge::engine {

class Session {
 public:
  // Both must outlive the session, which uses stream 0 of the executor. The speculator guesses, if there is one. With
  // `prefixes`, what another conversation needs the stream for is kept, and comes back with the first one. Usage has
  // seconds of `clock`.
  Session(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator = nullptr,
          const PrefixSettings& prefixes = {}, const std::function<double()>& clock = core::seconds_now)
      : executor_(executor),
        scheduler_(executor, program, std::move(speculator), prefixes, {.clock = clock}, Scheduler::Driver::caller) {}

  // Evaluates what is new of the prompt and generates, until `cancel` is raised at the latest. Throws what submit() and
  // next() of a sequence throw, and what the request's functions do.
  StopReason generate(SequenceRequest request, const std::atomic<bool>* cancel = nullptr);
  // Only evaluates the prompt; afterwards logits() are those of its last token. Returns false when `cancel` was raised
  // meanwhile; the cache then holds the part that was done.
  bool evaluate(std::span<const int32_t> prompt, const std::atomic<bool>* cancel = nullptr);

  std::span<const float> logits() { return executor_.logits(0); }
  int64_t context() const { return executor_.config().context; }
  std::span<const int32_t> cached() const { return scheduler_.cached(0); } // what the cache holds
  void keep(int64_t count) { scheduler_.keep(0, count); }                  // forgets all but the first `count` of it

  // About the last prompt and its answer, also while it is generated:
  std::span<const int32_t> tokens() const { return last_ ? last_->tokens() : std::span<const int32_t>(); }
  Usage prompt_usage() const { return last_ ? last_->prompt_usage() : Usage(); }
  Usage generation_usage() const { return last_ ? last_->generation_usage() : Usage(); }
  GuessCounts guesses() const { return last_ ? last_->guesses() : GuessCounts(); }

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  core::Executor& executor_;
  Scheduler scheduler_;
  std::shared_ptr<Sequence> last_; // null before the first
};

} // namespace ridge::engine
