#include "kernels/cuda/plan/workspace_plan.h"

#include "core/host_device/round_up.h"
#include "core/rings.h"
#include "kernels/cuda/gemm/product_bound.h"
#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/plan/packed_adapters.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>
#include <numeric>

namespace ridge::kernels::cuda {
namespace {

using core::round_up;

constexpr int64_t kKeptDecodedBytes = int64_t{2} << 30; // of an encoder, which only evaluates prompts

void plan_values(const core::Program& program, const Plan& plan, int64_t tokens, int64_t outputs, ValuesPlan& to) {
  for (const core::BufferPlan::Slot& slot : plan.buffers.slots)
    to.values.push_back((slot.gathered ? outputs : tokens) * slot.width * kFloatBytes);
  to.dataflow_offset.push_back(0);
  for (core::ValueId id = 0; id < std::ssize(program.values); ++id) {
    const auto wider = plan.widths.find(id);
    const int64_t width = wider == plan.widths.end() ? program.values[id].width : wider->second;
    to.dataflow_offset.push_back(to.dataflow_offset.back() + (plan.dataflow_values[id] ? round_up(width, 4) : 0));
  }
  to.dataflow = to.dataflow_offset.back() * kDataflowTokens * kFloatBytes;
}

void plan_products(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                   const DeviceLimits& limits, WorkspacePlan& to) {
  int64_t tiles = 0, gate_rows = 0;
  const auto count = [&](const MatrixStep& m) {
    const core::Weight& first = program.weights[m.parts[0].weight];
    const bool experts = m.ids != kNone;
    const int64_t rows = round_up(config.max_batch * (experts ? m.used : 1), kGemmRows);
    to.half_x = std::max(
        {to.half_x, rows * round_up(first.cols, kGemmColumns) * kF16Bytes, interleaved_bytes(rows, first.cols)});
    to.exponents = std::max(to.exponents, rows);
    if (m.glu) {
      const int64_t slots = std::min(
          (experts ? config.max_batch : std::min(config.max_batch, kMaxTiledTokens)) * m.used, half_slots(first.rows));
      to.glu_half = std::max(to.glu_half, interleaved_bytes(slots, first.rows));
      to.glu_largest = std::max(to.glu_largest, slots * kRowMaximumPitch * kFloatBytes);
    }
    int64_t row_tiles = 0;
    for (const MatrixStep::Part& part : m.parts) row_tiles += program.weights[part.weight].rows / kBatchRows + 1;
    to.batch_parts = std::max(to.batch_parts, (row_tiles + limits.sm_count) *
                                                  (limits.prompt_products ? kMaxDividedTokens : kMaxTiledTokens) *
                                                  (first.cols / 256 + 1) * kBatchRows * kFloatBytes);
    if (experts) {
      if (limits.prompt_products) {
        const int64_t sorted = sorted_wide_rows(config.max_batch * m.used, first.count, m.of_heads),
                      bytes = sorted * round_up(first.cols, kWideColumns) * kF16Bytes;
        to.half_x = std::max(to.half_x, m.of_heads ? bytes : std::min(kMaxSortedWideBytes, bytes));
        to.exponents = std::max(to.exponents, sorted);
      }
      to.batch_parts = kBatchScratchBytes;
      to.most_slots = std::max(to.most_slots, config.max_batch * m.used);
      tiles = std::max(tiles, most_expert_tiles(config.max_batch * m.used, first.count, 8));
    } else {
      to.widest_cols = std::max(to.widest_cols, first.cols);
      if (m.glu) gate_rows = std::max(gate_rows, first.rows);
    }
  };
  for (const Step& step : plan.steps) {
    const MatrixStep* m = step.matrix();
    if (!m) continue;
    count(*m);
    for (const MatrixStep& shared : m->shared_expert) count(shared); // separate for many tokens
  }
  to.batch_parts = std::min(to.batch_parts, kBatchScratchBytes);
  to.slots = (2 * to.most_slots + 1) * static_cast<int64_t>(sizeof(int32_t)) + tiles * sizeof(ExpertTile);
  if (config.max_outputs == 0) to.kept_decoded = kKeptDecodedBytes;
  if (has_prompt_products(config, limits))
    to.decoded = expanded_bytes(to.widest_cols), to.product_bounds = std::ssize(program.weights) * sizeof(ProductBound);
  else
    to.gate = config.max_batch * gate_rows * kFloatBytes;
}

// wgmma reads prompts' keys and values in f16 (attention/prompt_attention.cu). 0: too much beside the cache; prompts
// then take mma_attention.cu, which reads codes.
int64_t unpacked_cache_bytes(const core::Program& program, const core::ExecutorConfig& config,
                             const DeviceLimits& limits) {
  constexpr int64_t kMostOfCache = 4; // a quarter
  if (!limits.prompt_products || !has_prompt_attention(config, limits) || config.max_batch < kPromptTokensAtLeast ||
      !core::has_blocks(config.k_type) || !core::has_blocks(config.v_type))
    return 0;
  const std::vector<core::CacheRows> rows = core::cache_rows(program, config);
  int64_t most = 0, all = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const core::KvLayer& kv = program.kv_layers[i];
    if (kv.latent) continue;
    const int64_t elements = kv.heads * rows[i].rows;
    most = std::max(most, elements * (kv.k_dim + kv.v_dim) * int64_t{sizeof(uint16_t)});
    all += config.streams * elements *
           (core::head_bytes(config.k_type, kv.k_dim) + core::head_bytes(config.v_type, kv.v_dim));
  }
  return most <= all / kMostOfCache ? most : 0;
}

void plan_attention(const core::Program& program, const core::ExecutorConfig& config, const DeviceLimits& limits,
                    WorkspacePlan& to) {
  int64_t most_kv_heads = 1;
  const int64_t at_once = config.batch_invariant ? std::min<int64_t>(kInvariantTokens, config.max_batch) : 1;
  for (const core::KvLayer& kv : program.kv_layers) {
    if (kv.latent && kv.v_dim == 0) {
      to.index_scores = std::min<int64_t>(config.max_batch, kIndexedTokens) * config.context * kFloatBytes;
    } else if (kv.latent) {
      to.latent_partial =
          std::max(to.latent_partial, (at_once + kInvariantLatentShare - 1) / kInvariantLatentShare *
                                          latent_scratch_floats(kv.v_dim, limits.sm_count) * kFloatBytes);
    } else {
      most_kv_heads = std::max(most_kv_heads, kv.heads);
      to.attention_partial = std::max(
          to.attention_partial, at_once * attention_scratch_floats(kv.k_dim, kv.v_dim, limits.sm_count) * kFloatBytes);
    }
  }
  to.attention_tickets = config.max_batch * most_kv_heads * kAttentionTickets * kFloatBytes;
  to.unpacked_cache = unpacked_cache_bytes(program, config, limits);
  if (to.unpacked_cache > 0) to.zero_streams = config.max_batch * static_cast<int64_t>(sizeof(int32_t));
}

// A batch uses the values of one plan. The other's share their memory, except those that are read after a batch.
void share_values(const core::Program& program, const Plan& plan, WorkspacePlan& to) {
  std::vector<bool> taken(to.values.size());
  for (core::ValueId id = 0; id < std::ssize(program.values); ++id)
    if (const int32_t slot = plan.buffers.slot_of_value[id];
        slot >= 0 && (program.is_read_after(id) || id == program.input))
      taken[slot] = true;
  to.adapted_slots.assign(to.adapted.values.size(), kNone);
  for (size_t i = 0; i < to.adapted.values.size(); ++i) {
    int32_t best = kNone;
    for (size_t j = 0; j < to.values.size(); ++j)
      if (!taken[j] && to.values[j] >= to.adapted.values[i] && (best == kNone || to.values[j] < to.values[best]))
        best = static_cast<int32_t>(j);
    if (best == kNone) continue;
    taken[best] = true;
    to.adapted_slots[i] = best;
    to.adapted.values[i] = 0;
  }
}

int64_t sum(const std::vector<int64_t>& of) { return std::accumulate(of.begin(), of.end(), int64_t{0}); }

} // namespace

int64_t WorkspacePlan::bytes() const {
  return sum(values) + dataflow + sum(adapted.values) + adapted.dataflow + sum(rope_tables) + half_x + glu_half +
         glu_largest + exponents + 2 * gate + 2 * decoded + product_bounds + batch_parts + slots + attention_partial +
         latent_partial + adapted_x + index_scores + attention_tickets + unpacked_cache + zero_streams;
}

WorkspacePlan plan_workspace(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                             const DeviceLimits& limits, const Plan* adapted) {
  WorkspacePlan made;
  plan_values(program, plan, config.max_batch, config.max_outputs, made);
  if (adapted) {
    const bool prompts = adapts_prompts(config, limits);
    const auto most = [&](int64_t rows) { return prompts ? rows : std::min(rows, kDataflowTokens); };
    plan_values(program, *adapted, most(config.max_batch), most(config.max_outputs), made.adapted);
    share_values(program, plan, made);
    if (prompts) made.adapted_x = round_up(config.max_batch, kPromptTokens) * kMaxAdapterColumns * kF16Bytes;
  }
  for (const core::RopeTable& table : program.rope_tables)
    made.rope_tables.push_back(std::ssize(table.frequencies(config.context)) * kFloatBytes + std::ssize(table.axes));
  if (has_tensor_products(config, limits)) plan_products(program, config, plan, limits, made);
  plan_attention(program, config, limits, made);
  return made;
}

} // namespace ridge::kernels::cuda
