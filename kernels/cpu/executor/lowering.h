// Turns a Program into a Schedule: buffers for its values, kernels for its weights, items for the threads.
#pragma once

#include "core/executor.h"
#include "kernels/cpu/executor/kv_cache.h"
#include "kernels/cpu/executor/linear.h"
#include "kernels/cpu/executor/schedule.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::kernels::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The batch as the steps see it; filled by forward() before the schedule runs.
struct BatchState {
  // Consecutive tokens of one stream, few enough for one attention task per KV head.
  struct Segment {
    int64_t stream, first_token, tokens, first_position;
  };
  std::vector<int32_t> tokens, positions, streams, outputs;
  std::vector<Segment> segments;

  int64_t rows(bool gathered) const { return static_cast<int64_t>(gathered ? outputs.size() : tokens.size()); }
};

class Lowering {
 public:
  Lowering(const core::Program& program, const core::ExecutorConfig& config, int threads);
  Lowering(const Lowering&) = delete; // the schedule's functions refer to it

  void run() { schedule_.run(threads_); }
  std::vector<core::OpTime> profile(int repetitions); // of the batch that ran last
  BatchState& batch() { return batch_; }
  std::span<const float> result(int64_t row) const;
  std::span<float> input(); // for this batch's rows; empty where the Program begins with an embedding
  int64_t segment_tokens() const { return segment_tokens_; }
  int64_t bytes() const;

 private:
  // The tokens of a batch sorted by the expert they go to; made once per routing decision.
  struct ExpertGroups {
    struct Group {
      int64_t expert;
      size_t first, count; // of `pair`
    };
    std::vector<Group> groups;
    std::vector<int32_t> pair, token; // token * used + slot, and token alone
  };

  void embed(const core::Op& op);
  void rms_norm(const core::Op& op);
  void linear(const core::Op& op);
  void rope(const core::Op& op);
  void kv_store(const core::Op& op);
  void attention(const core::Op& op);
  void swiglu(const core::Op& op);
  void add(const core::Op& op);
  void permute(const core::Op& op);
  void gather(const core::Op& op);
  // lowering_experts.cpp
  void route(const core::Op& op);
  void expert_linear(const core::Op& op);
  void expert_sum(const core::Op& op);

  // Rows [first, last) of a value, in pieces worth a thread's while.
  using RowRange = std::function<void(int64_t first, int64_t last)>;
  void add_rows(const std::set<int64_t>& reads, const std::set<int64_t>& writes, bool gathered, int64_t width,
                RowRange run);
  // Pieces of a row, for ops that treat every element alike.
  using Elements = std::function<void(int64_t first, int64_t count)>;
  void add_elements(const std::set<int64_t>& reads, const std::set<int64_t>& writes, core::ValueId value, Elements run);

  const core::ValueInfo& info(core::ValueId id) const { return program_.values[id]; }
  float* value(core::ValueId id) const { return slots_[plan_.slot_of_value[id]].as<float>(); }
  int64_t slot(core::ValueId id) const { return plan_.slot_of_value[id]; }
  const std::vector<float>& vector_weight(core::WeightId id);
  Linear make_linear(const core::Weight& weight);
  bool wants_codes(const core::Weight& weight) const;
  // The quantized copy of a value read as rows of `cols`, made on first use; its buffer is free again after last_use.
  std::pair<std::byte*, int64_t> quantized(core::ValueId id, int64_t cols);
  ExpertGroups& expert_groups(core::ValueId ids, int64_t experts);
  LinearScratch& linear_scratch(int thread) { return *scratch_[thread].as<LinearScratch>(); }

  const core::Program& program_;
  const core::ExecutorConfig config_;
  const int threads_;
  core::BufferPlan plan_;
  KvCache cache_;
  BatchState batch_;
  Schedule schedule_;
  std::vector<Memory> slots_;
  std::vector<Memory> scratch_;   // per thread
  std::vector<int32_t> identity_; // 0, 1, 2 …
  int64_t segment_tokens_ = 1;

  // Resources of the schedule beside the value slots are numbered from here on.
  int64_t next_resource_;
  int64_t new_resource() { return next_resource_++; }
  std::vector<int64_t> cache_resource_; // per KV layer

  struct RopeAngles {
    Memory cos_sin; // [token][pairs cosines, pairs sines]
    int64_t resource;
  };
  std::vector<RopeAngles> angles_; // per rope table

  struct CodeBuffer {
    Memory memory;
    int64_t resource;
    core::ValueId holds;
    int64_t cols;
    size_t free_after; // index of the op that reads it last
  };
  std::vector<std::unique_ptr<CodeBuffer>> code_buffers_;
  size_t current_op_ = 0;
  std::vector<size_t> last_linear_use_; // per value: index of the last op that multiplies it

  std::map<core::WeightId, std::vector<float>> vectors_;
  std::map<uint32_t, FormatKernels> kernels_;
  struct GroupsOfValue {
    ExpertGroups groups;
    int64_t resource;
  };
  std::map<core::ValueId, std::unique_ptr<GroupsOfValue>> groups_;
};

} // namespace ridge::kernels::cpu
