// The class behind make_cuda_executor. executor.cpp has batches, decoding.cpp choices on the device.
#pragma once

#include "core/rings.h"
#include "kernels/cuda/cache/sent_rows.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/executor/launches.h"
#include "kernels/cuda/executor/profile.h"
#include "kernels/cuda/experts/cpu_experts.h"
#include "kernels/cuda/sampling/batch_sampler.h"

#include <map>

namespace ridge::kernels::cuda {

PlanShape shape_of(const core::Batch& batch);

class Executor final : public core::Executor {
 public:
  // The device must be current; `program` must outlive this.
  Executor(const core::Program& program, const core::ExecutorConfig& config, const CudaOptions& options);
  ~Executor() override {
    const CurrentDevice current(context_.device());
    cudaStreamSynchronize(context_.stream());
  }

  std::shared_ptr<float> make_input(int64_t floats) override;
  bool take_input(const core::Executor& from, std::span<const int32_t> which) override;
  void submit(const core::Batch& batch, const core::Choosing& choosing) override;
  std::span<const int32_t> wait() override;
  std::span<const float> logits(int64_t i) override;
  std::shared_ptr<const float> copy_result_rows(int64_t count) override;
  void expect_sending() { sender_.expect(); }
  SentResult send_result_rows(int64_t count);
  std::span<const float> hidden() override;
  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override {
    const MemoryPlan memory = allocated();
    return static_cast<double>(memory.cache + memory.state + memory.scratch + memory.reserve);
  }
  MemoryPlan allocated() const;

  int64_t saved_floats() const override { return core::state_elements(program_) + cache_.window_floats(); }
  std::shared_ptr<float> make_state() override;
  void save_state(int32_t stream, std::span<float> state, int64_t position) override;
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override;

  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    const CurrentDevice current(context_.device());
    cache_.copy(from, to, tokens, context_.stream());
    positions_.copy(from, to);
  }
  void set_adapters(int32_t stream, std::span<const core::AdapterUse> uses) override {
    core::check_adapters(program_, config_, stream, uses);
    const CurrentDevice current(context_.device());
    batch_.set_adapters(stream, uses, context_.stream());
  }
  bool can_resume_at(int32_t stream, int64_t position) const override {
    return positions_.can_resume_at(stream, position);
  }
  std::string block_layout() const override { return "cuda 1" + core::left_out_of_blocks(program_, config_); }
  int64_t block_bytes() const override { return cache_.block_bytes(); }
  std::shared_ptr<std::byte> make_block() override;
  void expect_blocks(int64_t count) override { blocks_.expect(count); }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override;
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override;
  void mark_state(int32_t stream) override;
  void restore_mark() override;
  core::ExpertUse expert_use() override {
    const CurrentDevice current(context_.device());
    return experts_.use();
  }

  bool shares_experts() const { return cpu_experts_ != nullptr; }

  bool can_choose(const core::SamplerParams& params) const override {
    return program_.output < 0 && BatchSampler::can_sample(params);
  }
  bool can_chain(const core::SamplerParams& params) const override;
  std::vector<int32_t> continue_greedily(const core::Batch& batch, core::Sampler& greedy, int64_t count) override;

  // Steps have consecutive positions; with one stream they include choosing a token.
  double time_decode(int64_t position, int64_t streams, int repetitions) override;
  std::vector<core::OpTime> profile(const core::Batch& batch, int repetitions) override;
  std::string describe_plan(const core::Batch& batch) override;
  std::vector<ProductWays> product_ways(const core::Batch& batch);
  void force_way(const std::string& products, const std::string& way);
  void set_way_factors(const std::map<std::string, double>& factors);

 private:
  bool whole() const { return program_.input < 0 && program_.output < 0; } // not a part
  int64_t rows_of(core::ValueId id, const PlanShape& shape) const {
    return program_.values[id].gathered ? shape.outputs : shape.tokens;
  }
  size_t bytes_of(core::ValueId id) const { // the most, on the host
    const core::ValueInfo& value = program_.values[id];
    const int64_t most = value.gathered ? config_.max_outputs : config_.max_batch;
    return std::max<int64_t>(most, 1) * value.width * sizeof(float);
  }
  static DeviceWeights make_weights(const core::Program& program, const ExpertStore& experts,
                                    const core::Executor* others);
  void take_expert_slots();
  void start_cpu_experts();
  void check_others() const; // ranks and the CPU
  void load_input(std::span<const float> input);
  std::shared_ptr<const SentRows> send_result(int64_t count);
  void evaluate(const core::Batch& batch);
  void begin_chain(const core::Sampler& sampler, const core::Batch& batch);
  void decode_chosen();
  void decode_known(const core::Batch& batch, int64_t guesses);
  void start_loop(const core::Sampler& sampler, int32_t position);
  void run_decoded(const PlanShape& shape, int64_t next_position);
  void feed_back(const PlanShape& from);
  const BatchPlan& plan_of(const PlanShape& shape);
  const Plan& steps_of(const BatchPlan& plan) const { return plan.adapted ? *adapted_ : plan_; }
  void forget_plans();
  void launch_all(const BatchPlan& plan, LaunchLog* log = nullptr);
  void run(const PlanShape& shape);

  const core::Program& program_;
  core::ExecutorConfig config_;
  CudaOptions options_;
  Plan plan_;
  std::string description_;

  DeviceContext context_;
  int64_t free_before_;
  ExpertStore experts_;
  std::unique_ptr<CpuExperts> cpu_experts_; // may be null
  DeviceWeights weights_;
  FoldedRouters routers_;
  std::optional<Plan> adapted_; // with adapters inside products, or none
  PackedAdapters adapters_;
  std::vector<std::string> step_names_[2]; // of plan_ and adapted_
  KvCache cache_;
  StateMemory states_;
  Workspace workspace_;
  BatchMemory batch_;
  DecodeLoop decoding_;
  BatchSampler sampler_;
  KernelLauncher launcher_;
  PlanInputs plan_inputs_;

  core::StreamPositions positions_;
  int64_t marked_position_ = 0; // of the marked state's stream
  int32_t decoding_stream_ = 0;
  PinnedMemory logits_host_;
  int64_t result_rows_ = 0;
  bool result_read_ = false; // logits_host_ has the result
  PinnedMemory hidden_host_;
  int64_t hidden_rows_ = 0;
  bool hidden_read_ = false;
  // Double-buffered hidden rows: the next step writes one while the host reads the other.
  struct DecodedRows {
    PinnedMemory host;
    int64_t count = 0;
  };
  DecodedRows decoded_[2];
  int64_t decoded_steps_ = 0, read_steps_ = 0; // the choice behind the first forward() has no rows
  bool hidden_is_decoded_ = false;
  bool in_chain_ = false, guessed_ = false; // guessed_: the batch to wait for has guesses
  std::span<const int32_t> chosen_;
  int32_t token_ = 0; // that wait() returns
  std::map<PlanShape, BatchPlan> plans_;
  std::map<PlanShape, Graph> graphs_;
  PinnedBlocks blocks_, state_copies_; // of cached rows; states
  RowSender sender_;
  DeviceMemory taken_rows_; // row indices of take_input()
  DeviceMemory first_bad_;  // index of the first result that is not finite
};

} // namespace ridge::kernels::cuda
