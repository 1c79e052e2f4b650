#include "kernels/cuda/plan/memory_plan.h"

#include "core/cache/rings.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/plan/plan.h"

#include <algorithm>
#include <set>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kAligned = 256, kFloat = 4;

int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

bool is_vector(core::WeightRole role) {
  return role == core::WeightRole::vector || role == core::WeightRole::taps || role == core::WeightRole::order;
}

// Of all weights that are not in `groups`.
int64_t weight_bytes(const core::Program& program, const std::vector<ExpertGroup>& groups) {
  std::set<core::WeightId> seen;
  for (const ExpertGroup& group : groups) seen.insert(group.weights.begin(), group.weights.end());
  int64_t bytes = 0;
  for (const core::Op& op : program.ops)
    for (size_t i = 0; i < op.weights.size(); ++i) {
      const core::Weight& w = program.weights[op.weights[i]];
      if (!seen.insert(op.weights[i]).second) continue;
      const quant::FormatInfo* format =
          is_vector(core::info_of(op.kind).weights.roles[i]) ? nullptr : quant::find_format(w.type);
      bytes += padded(format ? w.count * layout_bytes(*format, w.cols).matrix(w.rows) : w.total_bytes(), kAligned);
    }
  return bytes;
}

int ranks_of(const core::Program& program) {
  for (const core::Op& op : program.ops)
    if (const auto* params = std::get_if<core::RankParams>(&op.params)) return params->ranks;
  return 1;
}

// Kernels, graphs and buffers of the upload; decoded weights, sums of small batches and inputs of products; parts of
// attention's sums.
int64_t scratch_bytes(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan) {
  constexpr int64_t kMiB = 1 << 20, kLater = 256 * kMiB, kDecoded = 2 * 112 * kMiB, kSums = 64 * kMiB;
  constexpr int64_t kRows = 256, kColumns = 256;                   // that an input is padded to
  constexpr int64_t kSplits = 64, kTileRows = 16, kTickets = 9;    // of attention
  constexpr int64_t kMostMultiprocessors = 192, kIndexTokens = 64; // of latent attention and its index
  int64_t input = 0, kv_heads = 1, v_dim = 1, others = 0;
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::matrix) continue;
    const int64_t rows = config.max_batch * (step.matrix.ids != kNone ? step.matrix.used : 1);
    input =
        std::max(input, 2 * padded(rows, kRows) * padded(program.weights[step.matrix.parts[0].weight].cols, kColumns));
  }
  for (const core::KvLayer& kv : program.kv_layers) {
    if (kv.latent && kv.v_dim == 0)
      others = std::max(others, kFloat * std::min(config.max_batch, kIndexTokens) * config.context);
    else if (kv.latent)
      others = std::max(others, kFloat * kMostMultiprocessors * kSplits * (kv.v_dim + 2));
    else
      kv_heads = std::max(kv_heads, kv.heads), v_dim = std::max(v_dim, kv.v_dim);
  }
  const int64_t parts = std::max(std::min(config.max_batch, kGraphTokens) * kv_heads * kSplits, kMostMultiprocessors);
  const int64_t attention = kFloat * parts * kTileRows * (v_dim + 2) + kFloat * config.max_batch * kv_heads * kTickets;
  const int64_t exchanged = most_exchanged(program, config);
  if (exchanged > 0) others += static_cast<int64_t>(mailbox_layout(ranks_of(program), exchanged).bytes());
  return kLater + kDecoded + kSums + input + attention + others;
}

} // namespace

int64_t most_exchanged(const core::Program& program, const core::ExecutorConfig& config) {
  int64_t most = 0;
  for (const core::Op& op : program.ops) {
    if (class_of(op.kind) != core::OpClass::exchange) continue;
    const core::ValueInfo& value = program.values[op.outputs[0]];
    most = std::max(most, value.width * (value.gathered ? config.max_outputs : config.max_batch));
  }
  return most;
}

CacheBytes cache_bytes(const core::KvLayer& layer, int64_t rows, const core::ExecutorConfig& config) {
  const int64_t heads = config.streams * rows * layer.heads;
  return {padded(heads * core::head_bytes(config.k_type, layer.k_dim), kAligned),
          layer.latent ? 0 : padded(heads * core::head_bytes(config.v_type, layer.v_dim), kAligned)};
}

int64_t state_floats(const core::StateLayer& layer, const core::ExecutorConfig& config) {
  return padded(config.streams * layer.width, 64); // kernels read 16 bytes at a time
}

int64_t value_bytes(const core::BufferPlan::Slot& slot, const core::ExecutorConfig& config) {
  return (slot.gathered ? config.max_outputs : config.max_batch) * slot.width * kFloat;
}

LayoutBytes layout_bytes(const quant::FormatInfo& format, int64_t cols) {
  constexpr int64_t kTileGroups = 32, kPiece = 16;
  const bool scalar = format.block_weights == 1;
  const int64_t group_weights = scalar ? 32 / format.block_bytes : format.packed ? 32 : 16;
  const auto payload = [&](int64_t groups) {
    return padded(scalar ? 32 * groups : groups / (format.block_weights / group_weights) * format.block_bytes, kPiece);
  };
  const int64_t tile = payload(kTileGroups), groups = (cols + group_weights - 1) / group_weights;
  return {groups / kTileGroups * tile + payload(groups % kTileGroups), tile <= 340 ? 8 : tile <= 900 ? 4 : 2};
}

MemoryPlan plan_memory(const core::Program& program, const core::ExecutorConfig& config, bool experts_on_host) {
  MemoryPlan memory;
  const std::vector<ExpertGroup> groups = experts_on_host ? expert_groups(program) : std::vector<ExpertGroup>{};
  memory.weights = weight_bytes(program, groups);
  for (const ExpertGroup& group : groups) {
    memory.host_experts += group.experts * group.block_bytes;
    memory.expert_copy += group.block_bytes;
    memory.most_experts = std::max(memory.most_experts, group.experts);
  }
  const std::vector<core::CacheRows> rows = core::cache_rows(program, config);
  for (size_t i = 0; i < rows.size(); ++i) {
    const CacheBytes bytes = cache_bytes(program.kv_layers[i], rows[i].rows, config);
    memory.cache += bytes.keys + bytes.values;
  }
  for (const core::StateLayer& layer : program.states) memory.state += state_floats(layer, config) * kFloat;
  const Plan plan = make_plan(program, true);
  for (const core::BufferPlan::Slot& slot : plan.buffers.slots) memory.scratch += value_bytes(slot, config);
  for (size_t id = 0; id < program.values.size(); ++id)
    if (plan.dataflow_values[id]) memory.scratch += padded(program.values[id].width, 4) * kMatvecTokens * kFloat;
  memory.scratch += scratch_bytes(program, config, plan);
  return memory;
}

} // namespace ridge::kernels::cuda
