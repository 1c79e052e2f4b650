#include "kernels/cuda/plan/expert_groups.h"

#include "kernels/cuda/plan/memory_plan.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kAligned = 256;

int64_t uses(const core::Program& program, core::WeightId id) {
  int64_t count = 0;
  for (const core::Op& op : program.ops) count += std::ranges::count(op.weights, id);
  return count;
}

} // namespace

// Statistics of all layers; of each five arrays by expert or slot, one by multiprocessor and a number.
int64_t expert_table_bytes(const std::vector<ExpertGroup>& groups, int sm_count) {
  if (groups.empty()) return 0;
  int64_t bytes = kAligned;
  for (const ExpertGroup& group : groups) bytes += group.experts * 24 + sm_count * 4 + 7 * kAligned;
  return bytes;
}

std::vector<ExpertGroup> expert_groups(const core::Program& program) {
  std::vector<ExpertGroup> groups;
  for (const core::Op& op : program.ops) {
    if (op.kind == core::OpKind::route) groups.push_back({op.outputs[0]});
    if (op.kind != core::OpKind::expert_linear || uses(program, op.weights[0]) > 1) continue;
    const auto group = std::ranges::find(groups, op.inputs[1], &ExpertGroup::ids);
    if (group == groups.end()) continue; // matrices of heads, all of which are used
    const core::Weight& w = program.weights[op.weights[0]];
    group->experts = w.count;
    group->weights.push_back(op.weights[0]);
    group->offsets.push_back(group->block_bytes);
    const int64_t bytes = layout_bytes(*quant::find_format(w.type), w.cols).matrix(w.rows);
    group->block_bytes += (bytes + kAligned - 1) / kAligned * kAligned;
  }
  std::erase_if(groups, [](const ExpertGroup& group) { return group.weights.empty(); });
  return groups;
}

} // namespace ridge::kernels::cuda
