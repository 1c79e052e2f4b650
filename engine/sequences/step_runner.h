// Evaluates steps and takes their tokens.
#pragma once

#include "engine/sequences/announcer.h"
#include "engine/sequences/drafting.h"
#include "engine/sequences/ledger.h"
#include "engine/sequences/shared_prefixes.h"
#include "engine/sequences/step_plan.h"

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ridge::engine {

class StepRunner {
 public:
  struct Hooks {
    std::function<bool()> has_other_work; // a sequence or something else could start
    std::function<void(Stream& stream, StopReason stop, std::exception_ptr error)> end;
  };
  // All references must outlive it. `clock` times steps. `announcing_thread`: see Announcer.
  StepRunner(core::Executor& executor, const core::Program& program, Streams& streams, SharedPrefixes& prefixes,
             Ledger& ledger, std::function<double()> clock, std::unique_ptr<Speculator> speculator,
             bool announcing_thread, Hooks hooks)
      : executor_(executor), program_(program), streams_(streams), prefixes_(prefixes), ledger_(ledger),
        clock_(std::move(clock)), is_diffusion_(core::sees_ahead(program)), planner_(executor, program, streams),
        drafting_(executor, program, std::move(speculator)), announcer_(announcing_thread), hooks_(std::move(hooks)) {}

  void step();
  uint64_t count() const { return steps_; }
  bool speculates() const { return drafting_.on(); }

  // Whether a step is under way, so that no sequence can start.
  bool awaits() const { return awaited_ > 0; }
  // The next step does not continue what the executor decodes without the host.
  void break_chain() { chained_ = false, awaited_ = 0; }
  // Call before a stream reads its sequence's text, and before something else uses it.
  void enter(Stream& stream) { drafting_.attach(stream, sole_running(streams_) == &stream); }
  void leave(int32_t stream) {
    break_chain();
    drafting_.detach(stream);
  }

 private:
  void run_step();
  void evaluate(std::span<const Piece> pieces);
  void describe_prompt(const Piece& piece, int64_t output);
  std::vector<const core::Sampler*> samplers_of(std::span<const Piece> pieces) const;
  void count_step(double seconds, double bytes);
  void choose(const Piece& piece, int64_t output, std::span<const int32_t> chosen = {});
  void append(Stream& stream, int32_t token, std::optional<core::TokenChoice> choice);
  void fill();

  // A sequence that generates alone:
  bool can_chain(const Piece& piece);
  void await();
  void decode(const Piece& piece);

  core::Executor& executor_;
  const core::Program& program_;
  Streams& streams_;
  SharedPrefixes& prefixes_;
  Ledger& ledger_;
  const std::function<double()> clock_;
  const bool is_diffusion_;
  StepPlanner planner_;
  Drafting drafting_;
  Announcer announcer_;
  const Hooks hooks_;
  uint64_t steps_ = 0;
  bool chained_ = false; // the executor chooses tokens itself
  int64_t awaited_ = 0;  // tokens of a chained batch that was not waited for
};

} // namespace ridge::engine
