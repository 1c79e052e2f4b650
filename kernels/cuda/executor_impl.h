// The CUDA executor's own state, shared by what prepares it and runs batches (executor.cpp) and what turns a step into
// kernel launches (launches.cpp).
#pragma once

#include "kernels/cuda/executor.h"
#include "kernels/cuda/format_kernels.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/upload.h"

#include <map>
#include <stdexcept>

namespace ridge::kernels::cuda {

inline constexpr int64_t kGraphTokens = 64; // batches up to this size are replayed as a graph
inline constexpr int kMaxSplits = 64;       // blocks that share one tile's context

// Batches up to this size use the matvec kernel even where there are tensor cores.
inline constexpr int64_t kMatvecTokens = 8;

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

 private:
  struct Shape { // of a batch, as far as launches depend on it
    int64_t tokens, outputs;
    int tile_tokens;     // for attention
    bool greedy;         // ends with the choice of the next tokens
    bool sample = false; // ends with the choice of the next token by the sampler chain
    auto operator<=>(const Shape&) const = default;
  };

  void check_config() const;
  void check_batch(const core::Batch& batch) const;
  void allocate();
  void load_batch(const core::Batch& batch);
  void load_input(std::span<const float> input, const Shape& shape);
  bool whole() const { return program_.input < 0 && program_.output < 0; } // else a part of a Program
  void require_whole() const {
    if (!whole()) throw std::logic_error("CUDA: a part of a Program cannot decode on its own");
  }
  void run(const Shape& shape);
  void allocate_sampling(int32_t ring_size);
  void launch_all(const Shape& shape);
  void launch_step(const Step& step, const Shape& shape);
  void launch_matrix(const MatrixStep& m, const Shape& shape);
  void launch_product(const MatrixStep& m, int64_t rows);
  void launch_op(const core::Op& op, const Shape& shape);
  void launch_attention_op(const core::Op& op, const Shape& shape);

  float* value(core::ValueId id) const { return values_[plan_.buffers.slot_of_value[id]].as<float>(); }
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
  int64_t matvec_limit() const { // larger batches go through the tensor cores
    return config_.exact || launch_.shared_per_block < kGemmSharedBytes ? config_.max_batch : kMatvecTokens;
  }

  const core::Program& program_;
  core::ExecutorConfig config_;
  CudaOptions options_;
  Plan plan_;
  Stream stream_;
  Launch launch_;
  std::string description_;
  UploadedWeights weights_;
  size_t scratch_bytes_ = 0;

  std::vector<DeviceMemory> values_; // by slot
  std::vector<DeviceMemory> rope_tables_;
  DeviceMemory cache_;
  std::vector<Cache> cache_layers_;             // views into cache_
  DeviceMemory half_x_, exponents_, gate_, up_; // of matrix products
  DeviceMemory partial_, tickets_;              // of attention
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
  int64_t result_rows_ = 0; // of the last forward()
  std::map<Shape, Graph> graphs_;
};

} // namespace ridge::kernels::cuda
