// Turns a Program into a Schedule.
//
// lower_NAME in NAME.cpp below kernels/cpu/ops/ adds the steps of row NAME of core/ops.def.
#pragma once

#include "core/executor.h"
#include "kernels/cpu/executor/kv_cache.h"
#include "kernels/cpu/executor/linear.h"
#include "kernels/cpu/executor/schedule.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace ridge::kernels::cpu {

inline double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Few enough that every thread gets some.
constexpr int64_t latent_heads_of_item(int64_t heads, int threads) {
  return std::clamp<int64_t>(ceil_div(heads, threads), 1, 16);
}

// The current batch.
struct BatchState {
  // Tokens of one attention task per KV head.
  struct Segment {
    int64_t stream, first_token, tokens, first_position;
    int64_t end;                            // of the stream's positions in the batch
    int64_t block_first = 0, block_end = 0; // of the block with all its tokens; 0: none
  };
  // All tokens of one stream, in order.
  struct Sequence {
    int64_t stream;
    std::vector<int64_t> tokens;
    bool starts_from_zero;
  };
  std::vector<int32_t> tokens, positions, streams, outputs, axes;
  std::vector<float> given;               // core::Batch::rows
  std::vector<core::AdapterUse> adapters; // [streams][Program::adapters], persistent
  std::vector<Segment> segments;
  std::vector<Sequence> sequences;

  int64_t rows(bool gathered) const { return static_cast<int64_t>(gathered ? outputs.size() : tokens.size()); }
};

struct ExpertGroups {
  struct Group {
    int64_t expert;
    size_t first, count; // in `pair` and `token`
  };
  std::vector<Group> groups;
  std::vector<int32_t> pair, token; // token * used + slot; token
  Schedule::Resource resource;
};

struct RopeAngles {
  Memory cos_sin; // [token][pairs cosines, pairs sines]
  Schedule::Resource resource;
};

// Throws Error for an unknown type or partial blocks.
const quant::FormatInfo& format_of(const core::Weight& weight);

// What the products read from whose results queries, keys and values are made.
std::set<core::ValueId> attention_inputs(const core::Program& program);

class Lowering {
 public:
  using Resource = Schedule::Resource;
  using Resources = std::set<Resource>;

  Lowering(const core::Program& program, const core::ExecutorConfig& config, int threads);
  Lowering(const Lowering&) = delete; // referenced by the schedule

  void run() { schedule_.run(threads_); }
  std::vector<core::OpTime> profile(int repetitions);
  BatchState& batch() { return batch_; }
  std::span<const float> result(int64_t row) const;
  std::span<const float> hidden() const { return rows_of(program_.hidden); }
  std::span<float> input() { return rows_of(program_.input); }
  int64_t segment_tokens() const { return segment_tokens_; }
  int64_t bytes() const;

  // For the ops. Pointers stay valid as long as the Lowering.
  const core::Program& program() const { return program_; }
  const core::ExecutorConfig& config() const { return config_; }
  int threads() const { return threads_; }
  Schedule& schedule() { return schedule_; }
  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }
  Resource cache_resource(int32_t layer) const { return cache_resources_[layer]; }
  const RopeAngles& angles(int32_t table) const { return angles_[table]; }

  const core::ValueInfo& info(core::ValueId id) const { return program_.values[id]; }
  float* value(core::ValueId id) const { return slots_[plan_.slot_of_value[id]].as<float>(); }
  Resource slot(core::ValueId id) const { return plan_.slot_of_value[id]; }
  Resources slots(const std::vector<core::ValueId>& ids) const;
  const core::Weight& weight(core::WeightId id) const { return program_.weights[id]; }

  // Adds a step over rows [first, last).
  using RowRange = std::function<void(int64_t first, int64_t last)>;
  void add_rows(const Resources& reads, const Resources& writes, bool gathered, int64_t width, RowRange run);
  // The same for an element-wise op; ignores row boundaries.
  using Elements = std::function<void(int64_t first, int64_t count)>;
  void add_elements(const core::Op& op, Elements run);

  // The same for a recurrent op, over `pieces` of each state.
  using RunSequence = std::function<void(const BatchState::Sequence&, float* state, int64_t piece, int thread)>;
  void add_sequences(const core::Op& op, int32_t state, int64_t pieces, RunSequence run);
  float* state(int32_t layer, int64_t stream) const;

  // Decoded to f32 once.
  const std::vector<float>& vector_weight(core::WeightId id);
  Linear make_linear(const core::Weight& weight, core::ValueId input);
  bool wants_codes(const core::Weight& weight) const;
  // Quantized on first use; the buffer is reusable after the value's last product.
  struct Quantized {
    std::byte *rows, *tiles; // QuantizedRows; TokenTiles of kLeastTiledTokens or more, or null
    Resource resource;
  };
  Quantized quantized(core::ValueId id, int64_t cols);
  const ExpertGroups& expert_groups(core::ValueId ids, int64_t experts);
  // 0, 1, 2, …
  const int32_t* row_numbers() const { return row_numbers_.data(); }
  // Both share one buffer per thread.
  LinearScratch& linear_scratch(int thread) { return *scratch_[thread].as<LinearScratch>(); }
  float* attention_scratch(int thread) { return scratch_[thread].as<float>(); }
  AttentionTask attention_task(const core::AttentionParams& params, int thread);
  float* recurrent_scratch(int thread) { return scratch_[thread].as<float>(); }

 private:
  struct CodeBuffer {
    Memory memory;
    Resource resource;
    core::ValueId holds;
    int64_t cols;
    size_t free_after;
  };

  std::span<float> rows_of(core::ValueId id) const;
  void allocate_values();
  void allocate_states();
  void allocate_scratch();
  void add_rope_angles();
  void find_last_products();
  void lower_ops();
  CodeBuffer& code_buffer(int64_t bytes);
  Resource new_resource() { return next_resource_++; }

  const core::Program& program_;
  const core::ExecutorConfig config_;
  const int threads_;
  // 16-bit activations cost 1/4 of decode and 1/3 of prefill speed on a compute-bound Xeon (2 threads). For queries,
  // keys and values alone, a third of the error goes for 2 % of decode speed (SmolLM2-135M).
  const bool wide_;
  const std::set<core::ValueId> attention_inputs_;
  bool is_wide(core::ValueId id) const { return wide_ || attention_inputs_.contains(id); }
  core::BufferPlan plan_;
  KvCache cache_;
  BatchState batch_;
  Schedule schedule_;
  Resource next_resource_;
  std::vector<Resource> cache_resources_;
  std::vector<Memory> states_; // per layer, [stream][width]
  std::vector<Resource> state_resources_;
  std::vector<Memory> slots_;
  std::vector<Memory> scratch_;
  std::vector<int32_t> row_numbers_;
  int64_t segment_tokens_ = 1;
  std::vector<RopeAngles> angles_;

  size_t current_op_ = 0;
  std::vector<size_t> last_reader_;
  std::vector<std::unique_ptr<CodeBuffer>> code_buffers_;
  std::map<core::WeightId, std::vector<float>> vectors_;
  std::map<uint32_t, FormatKernels> kernels_;
  std::map<core::ValueId, ExpertGroups> groups_;
};

#define RIDGE_OP(name, ...) void lower_##name(Lowering& lowering, const core::Op& op);
#include "core/ops.def"
#undef RIDGE_OP

} // namespace ridge::kernels::cpu
