// Where the time of one step goes, op by op: what --profile shows.
#pragma once

#include "core/executor.h"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace ridge::measure {

struct OpProfile {
  std::string name; // "attn_q attn_k attn_v": what runs as one, without the layer
  int32_t layer;    // -1: outside
  double seconds, bytes, flops;
  std::vector<int32_t> ops = {};                  // indices into Program::ops
  double waiting = 0, starts = 0, ends_apart = 0; // as core::OpTime has them
};

// "attn_q" of "blk.3.attn_q".
std::string name_without_layer(const core::Op& op);

// Tokens that are evaluated at once behind `position` others: one of each of some streams, or all of the first one.
struct ProfiledStep {
  std::span<const int32_t> tokens;
  int64_t position = 0;
  bool one_stream = false;
  bool only_last = false; // its logits are wanted, as of a prompt; else all tokens'
};

struct StepProfile {
  int64_t position;    // tokens in the context before this step, of each stream
  double step_seconds; // the undivided step: forward() as it always runs
  double read_bytes_per_second;
  std::vector<OpProfile> ops;      // in order; empty: this executor has no times
  int64_t tokens = 1, streams = 1; // evaluated at once, of so many streams
  std::string plan = {};           // Executor::describe_plan
};

// Evaluates a batch of an executor twice as often as `repetitions`. The cache must hold what lies before.
StepProfile profile_batch(core::Executor& executor, const core::Program& program, const core::Batch& batch,
                          const core::Step& step, double read_bytes_per_second, int repetitions = 20);
StepProfile profile_step(core::Executor& executor, const core::Program& program, const ProfiledStep& step,
                         double read_bytes_per_second, int repetitions = 20);

// Layers together, the longest first; gap: the time above what the bytes take at the roof. Where the executor measures
// how long ops wait, then the layer in the middle, op by op along a line of time.
std::string profile_table(const StepProfile& profile);
nlohmann::ordered_json profile_json(const StepProfile& profile); // every op

} // namespace ridge::measure
