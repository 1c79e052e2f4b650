#include "kernels/cuda/executor/workspace.h"

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/plan/memory_plan.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// What the products of all steps need at most.
struct ProductSizes {
  int64_t x = 0, x_rows = 0; // elements and rows of the converted input
  int64_t widest = 0;        // columns of a matrix that is no expert's
  int64_t gate = 0;          // rows of a gate matrix
  int64_t parts = 0;         // bytes of partial sums
  int64_t slots = 0, tiles = 0;
};

ProductSizes sizes_of_products(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                               int sm_count) {
  ProductSizes most;
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::matrix) continue;
    const MatrixStep& m = step.matrix;
    const core::Weight& first = program.weights[m.parts[0].weight];
    const bool experts = m.ids != kNone;
    const int64_t rows = padded(config.max_batch * (experts ? m.used : 1), kGemmRows);
    most.x = std::max(most.x, rows * padded(first.cols, kGemmColumns));
    most.x_rows = std::max(most.x_rows, rows);
    int64_t row_tiles = 0;
    for (const MatrixStep::Part& part : m.parts) row_tiles += program.weights[part.weight].rows / kBatchRows + 1;
    most.parts = std::max(most.parts, (row_tiles + sm_count) * (kBatchTokens / kMaxTileTokens) *
                                          (first.cols / 256 + 1) * kMaxTileTokens * kBatchRows * 4);
    if (experts) {
      most.parts = kBatchScratchBytes;
      most.slots = std::max(most.slots, config.max_batch * m.used);
      most.tiles = std::max(most.tiles, config.max_batch * m.used / 8 + first.count);
    } else {
      most.widest = std::max(most.widest, first.cols);
      if (m.glu) most.gate = std::max(most.gate, first.rows);
    }
  }
  return most;
}

} // namespace

Workspace::Workspace(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                     const DeviceContext& context)
    : slot_of_value_(plan.buffers.slot_of_value) {
  allocate_values(program, config, plan, context.stream());
  if (has_tensor_products(config, context.limits())) allocate_products(program, config, plan, context);
  allocate_attention(program, config, context);
}

void Workspace::allocate_values(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                                cudaStream_t stream) {
  for (const auto& slot : plan.buffers.slots) values_.push_back(memory(value_bytes(slot, config), "the activations"));
  dataflow_offset_.push_back(0);
  for (size_t id = 0; id < program.values.size(); ++id)
    dataflow_offset_.push_back(dataflow_offset_.back() +
                               (plan.dataflow_values[id] ? padded(program.values[id].width, 4) : 0));
  dataflow_ = memory(dataflow_offset_.back() * kMatvecTokens * 4, "the activations");
  for (const core::RopeTable& table : program.rope_tables) {
    const std::vector<float>& frequencies = table.frequencies(config.context);
    const size_t bytes = frequencies.size() * 4;
    rope_tables_.push_back(memory(bytes, "a rotation table"));
    RIDGE_CUDA(cudaMemcpyAsync(rope_tables_.back().as(), frequencies.data(), bytes, cudaMemcpyHostToDevice, stream));
  }
}

void Workspace::allocate_products(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                                  const DeviceContext& context) {
  const ProductSizes most = sizes_of_products(program, config, plan, context.limits().sm_count);
  half_x_ = memory(most.x * 2, "the activations");
  RIDGE_CUDA(cudaMemsetAsync(half_x_.as(), 0, half_x_.bytes(), context.stream()));
  exponents_ = memory(most.x_rows, "the activations");
  if (has_prompt_products(config, context.limits())) {
    prompt_scratch_ = std::make_unique<PromptScratch>(most.widest);
    bytes_ += 2 * prompt_scratch_->buffer_bytes();
  } else {
    gate_ = memory(config.max_batch * most.gate * 4, "the activations");
    up_ = memory(config.max_batch * most.gate * 4, "the activations");
  }
  parts_ = memory(std::min(most.parts, kBatchScratchBytes), "sums of small batches");
  most_slots_ = most.slots;
  slots_ = memory((most.slots + 1) * 4 + most.tiles * sizeof(ExpertTile), "experts' tokens");
}

void Workspace::allocate_attention(const core::Program& program, const core::ExecutorConfig& config,
                                   const DeviceContext& context) {
  int64_t most_kv_heads = 1, largest_v_dim = 1, latent_floats = 0, index_floats = 0;
  for (const core::KvLayer& kv : program.kv_layers) {
    if (kv.latent && kv.v_dim == 0) // of an index
      index_floats = std::min<int64_t>(config.max_batch, kIndexedTokens) * config.context;
    if (kv.latent) {
      latent_floats =
          std::max(latent_floats, latent_scratch_floats(static_cast<int>(kv.v_dim), context.limits().sm_count));
      continue;
    }
    most_kv_heads = std::max(most_kv_heads, kv.heads);
    largest_v_dim = std::max(largest_v_dim, kv.v_dim);
  }
  const auto tiles = static_cast<int>(std::min(config.max_batch, kGraphTokens));
  const int v_dim = static_cast<int>(largest_v_dim), sm_count = context.limits().sm_count;
  const int64_t floats =
      std::max(attention_scratch_floats(tiles, static_cast<int>(most_kv_heads), kMaxAttentionSplits, v_dim),
               attention_scratch_floats(1, 1, sm_count, v_dim)); // a tile's, whose blocks are all that run at once
  attention_partial_ = memory(floats * 4, "attention");
  latent_partial_ = memory(latent_floats * 4, "attention");
  index_scores_ = memory(index_floats * 4, "attention");
  attention_tickets_ = memory(config.max_batch * most_kv_heads * kAttentionTickets * sizeof(unsigned), "attention");
  RIDGE_CUDA(cudaMemsetAsync(attention_tickets_.as(), 0, attention_tickets_.bytes(), context.stream()));
}

// The sentinel's bytes are all ones (ptx.cuh).
void Workspace::clear_dataflow(int64_t tokens, cudaStream_t stream) const {
  if (const int64_t floats = tokens * dataflow_offset_.back(); floats > 0)
    RIDGE_CUDA(cudaMemsetAsync(dataflow_.as(), 0xff, floats * 4, stream));
}

} // namespace ridge::kernels::cuda
