// Time by op, for --profile.
#pragma once

#include "core/executor.h"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace ridge::measure {

struct OpProfile {
  std::string name; // "attn_q attn_k attn_v" if they run as one
  int32_t layer;    // -1: outside layers
  double seconds, bytes, flops;
  std::vector<int32_t> ops = {};                       // indices into Program::ops
  double waiting = 0, start_delay = 0, end_spread = 0; // see core::OpTime
};

// "attn_q" of "blk.3.attn_q".
std::string name_without_layer(const core::Op& op);

// One token per stream, or all of one stream.
struct ProfiledStep {
  std::span<const int32_t> tokens;
  int64_t position = 0;
  bool one_stream = false;
  bool only_last = false; // logits of the last token only, as in prefill
};

struct StepProfile {
  int64_t position;    // tokens before this step, per stream
  double step_seconds; // unprofiled
  double read_bytes_per_second;
  std::vector<OpProfile> ops; // empty: the executor has no times
  int64_t tokens = 1, streams = 1;
  std::string plan = {}; // Executor::describe_plan
};

// Evaluates 2 * `repetitions` times. The cache must hold earlier positions.
StepProfile profile_batch(core::Executor& executor, const core::Program& program, const core::Batch& batch,
                          const core::Step& step, double read_bytes_per_second, int repetitions = 20);
StepProfile profile_step(core::Executor& executor, const core::Program& program, const ProfiledStep& step,
                         double read_bytes_per_second, int repetitions = 20);

// Sums over layers, longest first; gap: time above the memory roof. With waits, also the middle layer's timeline.
std::string profile_table(const StepProfile& profile);
nlohmann::ordered_json profile_json(const StepProfile& profile); // every op

} // namespace ridge::measure
