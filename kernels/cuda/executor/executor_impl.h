// The CUDA executor's own state, shared by what prepares it and runs batches (executor.cpp) and what turns a step into
// kernel launches (launches.cpp).
#pragma once

#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/executor/format_kernels.h"
#include "kernels/cuda/executor/plan.h"
#include "kernels/cuda/executor/upload.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/sampling/sampling.h"

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

namespace ridge::kernels::cuda {

inline constexpr int64_t kGraphTokens = 64; // batches up to this size are replayed as a graph

// Batches up to these sizes go through the matvec kernel and the product for small batches, larger ones through the
// prompts' product.
inline constexpr int64_t kMatvecTokens = 2, kBatchTokens = 96;

// So many tokens fill the chip with a block or more for each of them, in attention and rotation.
inline constexpr int64_t kPromptTokensAtLeast = 64;

// The batch in device memory, one allocation so that one copy brings it in.
struct DeviceBatch {
  int32_t *tokens, *positions, *streams, *outputs;
};

class Executor final : public CudaExecutor {
 public:
  Executor(const core::Program& program, const core::ExecutorConfig& config, const CudaOptions& options);
  ~Executor() override { cudaStreamSynchronize(stream_.handle); }

  void forward(const core::Batch& batch) override;
  std::span<const float> logits(int64_t i) override;
  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override { return static_cast<double>(cache_.bytes() + scratch_bytes_); }

  bool start_decoding(const core::Sampler& sampler, int32_t position, int32_t stream) override;
  int32_t next_token(bool ahead) override;

  std::vector<int32_t> generate_greedy(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                       std::span<const int32_t> streams, int64_t count) override;
  double time_decode(int64_t position, int64_t streams, int repetitions) override;
  std::vector<core::OpTime> profile(const core::Batch& batch, int repetitions) override; // profile.cpp

 private:
  struct Shape { // of a batch, as far as launches depend on it
    int64_t tokens, outputs;
    int tile_tokens;       // for attention
    bool greedy;           // ends with the choice of the next tokens
    bool distinct_streams; // each token is of another stream: none attends to another one's key
    bool sample = false;   // ends with the choice of the next token by the sampler chain
    auto operator<=>(const Shape&) const = default;
  };

  static bool distinct_streams(std::span<const int32_t> streams, int64_t tokens);
  void check_config() const;
  void check_batch(const core::Batch& batch) const;
  void allocate();
  void allocate_products();
  void load_batch(const core::Batch& batch);
  void load_input(std::span<const float> input, const Shape& shape);
  bool whole() const { return program_.input < 0 && program_.output < 0; } // else a part of a Program
  void require_whole() const {
    if (!whole()) throw std::logic_error("CUDA: a part of a Program cannot decode on its own");
  }
  void run(const Shape& shape);
  void capture(const Shape& shape, Graph& graph);
  void allocate_sampling(int32_t ring_size);
  void launch_all(const Shape& shape);
  void log_step(size_t step) {
    if (launch_.log) launch_.log->step = step;
  }
  struct Renamed {
    core::ValueId from = kNone, to = kNone;
  };
  Renamed gathered_next(size_t step) const;
  void launch_step(const Step& step, const Shape& shape);
  void launch_matrix(const MatrixStep& m, const Shape& shape);
  void launch_matvec(core::WeightId weight, const MatvecArgs& args);
  void observe(const core::Op& op, const MatrixStep& m, int64_t rows); // observe.cpp
  void launch_product(const MatrixStep& m, int64_t rows);
  bool launch_experts(const MatrixStep& m, int64_t rows);
  bool launch_batch(const MatrixStep& m, BatchArgs& args, int tile_tokens);
  GemmArgs product_args(const MatrixStep& m, int64_t rows, int64_t cols, bool tiled);
  void launch_op(const core::Op& op, const Shape& shape);
  void launch_heads(const HeadsStep& h, const Shape& shape);
  RopeStoreArgs rope_store_args(const HeadsStep& h, const Shape& shape) const;
  AttentionArgs attention_args(const core::Op& op, const Shape& shape) const;
  void launch_attention_op(const core::Op& op, const Shape& shape);

  float* value(core::ValueId id) const {
    if (id == renamed_.from) id = renamed_.to;
    if (dataflow_tokens_ && plan_.dataflow_values[id])
      return dataflow_memory_.as<float>() + dataflow_tokens_ * dataflow_offset_[id];
    return values_[plan_.buffers.slot_of_value[id]].as<float>();
  }
  // Of the step that is being launched.
  bool input_is_dataflow() const { return dataflow_tokens_ && plan_.steps[step_].dataflow_input; }
  int32_t* ids(core::ValueId id) const { return reinterpret_cast<int32_t*>(value(id)); }
  int64_t width(core::ValueId id) const { return program_.values[id].width; }
  int64_t rows_of(core::ValueId id, const Shape& shape) const {
    return program_.values[id].gathered ? shape.outputs : shape.tokens;
  }
  const float* vector(core::WeightId id) const {
    return id == kNone ? nullptr : reinterpret_cast<const float*>(weights_.weights[id].data);
  }
  const FormatKernels& format_of(core::WeightId id) const { return format_kernels(program_.weights[id].type); }
  DeviceMemory memory(size_t bytes, const char* what) {
    scratch_bytes_ += bytes;
    return DeviceMemory(bytes, what);
  }
  bool tensor_cores() const { return !config_.exact && launch_.shared_per_block >= kGemmSharedBytes; }
  // Whether `slots` choices among `experts` are sorted by expert, because some are likely to be of the same one.
  bool groups_experts(int64_t slots, int64_t experts) const {
    return tensor_cores() && has_batch_kernels_ && 2 * slots > experts;
  }
  static int expert_tile_tokens(int64_t slots, int64_t experts) { // experts differ in how often they are chosen
    return slots > 12 * experts ? 32 : slots > 5 * experts ? 16 : 8;
  }

  const core::Program& program_;
  core::ExecutorConfig config_;
  CudaOptions options_;
  Plan plan_;
  std::vector<std::string> step_names_; // "3:attn_q attn_k attn_v", for Nsight
  Stream stream_{-1};                   // before the blocks that decode weights for later (prompt_product.h)
  Launch launch_;
  bool has_batch_kernels_ = false; // the product for small batches needs barriers that copies arrive at
  std::string description_;
  UploadedWeights weights_;
  size_t scratch_bytes_ = 0;

  std::vector<DeviceMemory> values_; // by slot
  // Values that are handed over in batches of up to kMatvecTokens: memory of their own, which a step begins by making
  // absent.
  DeviceMemory dataflow_memory_;
  std::vector<int64_t> dataflow_offset_; // by value, and in the end of all: floats of a token
  int64_t dataflow_tokens_ = 0;          // tokens of the batch that is being launched, if its values are
  std::vector<DeviceMemory> rope_tables_;
  DeviceMemory cache_;
  std::vector<Cache> cache_layers_; // views into cache_
  struct Converted {
    core::ValueId x;
    core::WeightId norm;
    int64_t cols;
    bool tiled;
    bool operator==(const Converted&) const = default;
  };
  std::optional<Converted> converted_;     // what half_x_ holds; several matrices may want the same
  DeviceMemory half_x_, exponents_;        // of matrix products
  DeviceMemory gate_, up_;                 // of those for older chips
  std::unique_ptr<PromptScratch> decoded_; // where prompts go through wgmma, else null
  std::vector<PromptMatrices> pending_;    // of siblings, until the last of them comes
  struct Held {                            // the product of a single token with a matrix that a sibling's may join
    core::WeightId weight;
    MatvecArgs args;
    size_t step; // of the plan
  };
  std::optional<Held> held_;
  size_t step_ = 0; // that is being launched
  Renamed renamed_; // where a gather has nothing to do: its input, written as its output at once
  bool sibling_follows_ = false, sibling_under_way_ = false;
  DeviceMemory parts_; // of small batches
  DeviceMemory slots_; // sorted by expert: order, tiles, number of tiles
  int32_t *slot_order_ = nullptr, *tile_count_ = nullptr;
  ExpertTile* expert_tiles_ = nullptr;
  DeviceMemory partial_, tickets_; // of attention
  DeviceMemory greedy_;
  GreedyArgs greedy_args_ = {};
  struct Decoding { // tokens are chosen one ahead: the host reads one of two slots while the other is filled
    DeviceMemory memory;
    DeviceMemory ring;
    PinnedMemory host; // a SampleState, two tokens
    Event chosen[2];
    int64_t enqueued = 0, read = 0;
    int32_t position = 0; // of the next token
    SampleArgs args = {};
  };
  Decoding decoding_;
  DeviceMemory batch_memory_;
  PinnedMemory batch_host_;
  DeviceBatch batch_ = {}, host_batch_ = {};
  PinnedMemory logits_host_;
  int64_t result_rows_ = 0;  // of the last forward()
  bool result_read_ = false; // all of it, into logits_host_
  PinnedMemory observed_;    // what goes into a matrix
  std::map<Shape, Graph> graphs_;
};

} // namespace ridge::kernels::cuda
