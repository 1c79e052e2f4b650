// A conversation on the caller's thread: a scheduler with a single submitter. Each turn evaluates only its new tokens.
#pragma once

#include "engine/sequences/scheduler.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace ridge::engine {

class Session {
 public:
  // Arguments must outlive it. It uses stream 0. With `prefixes`, a conversation that loses the stream to another one
  // is kept. `clock` measures usage.
  Session(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator = nullptr,
          const PrefixSettings& prefixes = {}, const std::function<double()>& clock = core::seconds_now)
      : executor_(executor),
        scheduler_(executor, program, std::move(speculator), prefixes, {.clock = clock}, Scheduler::Driver::caller) {}

  // Setting `cancel` ends it. Throws what Scheduler::submit(), Sequence::next() and the callbacks throw.
  StopReason generate(SequenceRequest request, const std::atomic<bool>* cancel = nullptr);
  // Afterwards logits() belong to the last token. Returns false if cancelled; the cache then holds the finished part.
  bool evaluate(std::span<const int32_t> prompt, const std::atomic<bool>* cancel = nullptr);

  std::span<const float> logits() { return executor_.logits(0); }
  int64_t context() const { return executor_.config().context; }
  std::span<const int32_t> cached() const { return scheduler_.cached(0); }
  void keep(int64_t count) { scheduler_.keep(0, count); }

  // About the last prompt and its answer, also during generation:
  std::span<const int32_t> tokens() const { return last_ ? last_->tokens() : std::span<const int32_t>(); }
  Usage prompt_usage() const { return last_ ? last_->prompt_usage() : Usage(); }
  Usage generation_usage() const { return last_ ? last_->generation_usage() : Usage(); }
  GuessCounts guesses() const { return last_ ? last_->guesses() : GuessCounts(); }

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  core::Executor& executor_;
  Scheduler scheduler_;
  std::shared_ptr<Sequence> last_;
};

} // namespace ridge::engine
