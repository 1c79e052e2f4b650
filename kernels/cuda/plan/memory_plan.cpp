#include "kernels/cuda/plan/memory_plan.h"

#include "core/host_device/round_up.h"
#include "core/rings.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/plan/folded_routers.h"
#include "kernels/cuda/plan/packed_adapters.h"
#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/plan/workspace_plan.h"
#include "kernels/cuda/products/desc.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "quant/registry.h"

#include <algorithm>
#include <set>

namespace ridge::kernels::cuda {
namespace {

using core::round_up;

constexpr int64_t kAligned = 256;

int64_t weight_bytes(const core::Program& program, const std::vector<ExpertGroup>& groups) {
  std::set<core::WeightId> seen;
  for (const ExpertGroup& group : groups) seen.insert(group.weights.begin(), group.weights.end());
  int64_t bytes = 0;
  for (const core::Op& op : program.ops)
    for (size_t i = 0; i < op.weights.size(); ++i) {
      const core::Weight& w = program.weights[op.weights[i]];
      if (!seen.insert(op.weights[i]).second) continue;
      const bool packed = !keeps_layout(core::info_of(op.kind).weights.roles[i]) && quant::find_format(w.type);
      bytes += round_up(packed ? w.count * packed_bytes(w) : w.total_bytes(), kAligned);
    }
  return bytes;
}

int ranks_of(const core::Program& program) {
  for (const core::Op& op : program.ops)
    if (const auto* params = std::get_if<core::RankParams>(&op.params)) return params->ranks;
  return 1;
}

int64_t mailbox_bytes(const core::Program& program, const core::ExecutorConfig& config) {
  const int64_t exchanged = max_exchanged_floats(program, config);
  return exchanged == 0 ? 0 : static_cast<int64_t>(mailbox_layout(ranks_of(program), exchanged).bytes());
}

} // namespace

int64_t max_exchanged_floats(const core::Program& program, const core::ExecutorConfig& config) {
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
  return {round_up(heads * core::head_bytes(config.k_type, layer.k_dim), kAligned),
          layer.latent ? 0 : round_up(heads * core::head_bytes(config.v_type, layer.v_dim), kAligned)};
}

int64_t place_bytes(const core::Program& program, const core::ExecutorConfig& config) {
  return program.has_token_coordinates || core::sees_ahead(program) ? config.max_batch * kPlaceBytes : 0;
}

int64_t given_bytes(const core::Program& program, const core::ExecutorConfig& config) {
  return config.max_batch * program.row_width * kFloatBytes;
}

int64_t adapter_use_bytes(const core::Program& program, const core::ExecutorConfig& config) {
  return config.streams * std::ssize(program.adapters) * static_cast<int64_t>(sizeof(core::AdapterUse));
}

int64_t state_floats(const core::StateLayer& layer, const core::ExecutorConfig& config) {
  return round_up(config.streams * layer.width, 64); // kernels read 16 bytes at a time
}

// Upload buffers are freed before the others are made.
int64_t reserve_bytes(const core::Program& program, const core::ExecutorConfig& config) {
  constexpr int64_t kMiB = 1 << 20, kKernelsAndGraphs = 160 * kMiB, kUpload = 128 * kMiB, kStaged = 32 * kMiB;
  constexpr int64_t kRowBytes = 16 << 10;
  const int64_t lists = (config.max_outputs + 1) * (program.choices() * 8 + kRowBytes);
  const int64_t counts = program.choices() * kFloatBytes + config.context * kFloatBytes;
  const int64_t marked = static_cast<int64_t>(core::state_elements(program)) * kFloatBytes;
  return kKernelsAndGraphs + std::max(kUpload, lists + counts + kStaged + marked);
}

bool keeps_layout(core::WeightRole role) {
  return role == core::WeightRole::vector || role == core::WeightRole::taps || role == core::WeightRole::order;
}

int64_t packed_bytes(const core::Weight& w) {
  const FormatNumbers format = format_numbers(static_cast<quant::Type>(w.type));
  return round_up(w.rows, row_block_rows(format.tile_bytes)) * format.row_bytes(w.cols);
}

MemoryPlan plan_memory(const core::Program& program, const core::ExecutorConfig& config, const DeviceLimits& limits,
                       bool experts_on_host) {
  MemoryPlan memory;
  const std::vector<ExpertGroup> groups = experts_on_host ? expert_groups(program) : std::vector<ExpertGroup>{};
  const Plan plan = make_plan(program, true, !config.batch_invariant);
  const std::optional<Plan> made = adapts_products(config, limits) ? make_adapted_plan(program) : std::nullopt;
  const Plan* adapted = made ? &*made : nullptr;
  memory.weights = weight_bytes(program, groups) + folded_bytes(program, config, plan, limits) +
                   packed_adapter_bytes(program, adapted, adapts_prompts(config, limits));
  memory.experts = expert_sizes(groups);
  const std::vector<core::CacheRows> rows = core::cache_rows(program, config);
  for (size_t i = 0; i < rows.size(); ++i) {
    const CacheBytes bytes = cache_bytes(program.kv_layers[i], rows[i].rows, config);
    memory.cache += bytes.keys + bytes.values;
  }
  for (const core::StateLayer& layer : program.states) memory.state += state_floats(layer, config) * kFloatBytes;
  memory.scratch = plan_workspace(program, config, plan, limits, adapted).bytes() + 4 * config.max_batch * kFloatBytes +
                   place_bytes(program, config) + given_bytes(program, config) + adapter_use_bytes(program, config) +
                   expert_table_bytes(groups, limits.sm_count) + mailbox_bytes(program, config);
  memory.reserve = reserve_bytes(program, config);
  return memory;
}

} // namespace ridge::kernels::cuda
