#include "kernels/cuda/plan/expert_groups.h"

#include "kernels/cuda/plan/memory_plan.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

int64_t uses(const core::Program& program, core::WeightId id) {
  int64_t count = 0;
  for (const core::Op& op : program.ops) count += std::ranges::count(op.weights, id);
  return count;
}

} // namespace

int64_t slot_bytes(const std::vector<ExpertGroup>& groups, int64_t slots) {
  int64_t bytes = 0;
  for (const ExpertGroup& group : groups) bytes += std::min(slots, group.experts) * group.block_bytes;
  return bytes;
}

// Statistics; per group five arrays by expert or slot, one by multiprocessor, a number.
int64_t expert_table_bytes(const std::vector<ExpertGroup>& groups, int sm_count) {
  if (groups.empty()) return 0;
  int64_t bytes = kExpertAligned;
  for (const ExpertGroup& group : groups) bytes += group.experts * 24 + sm_count * 4 + 7 * kExpertAligned;
  return bytes;
}

bool chooses_experts(const core::Program& program) {
  return std::ranges::any_of(program.ops, [](const core::Op& op) { return op.kind == core::OpKind::route; });
}

std::vector<ExpertGroup> expert_groups(const core::Program& program) {
  std::vector<ExpertGroup> groups;
  for (const core::Op& op : program.ops) {
    if (op.kind == core::OpKind::route) groups.push_back({op.outputs[0]});
    if (op.kind != core::OpKind::expert_linear || uses(program, op.weights[0]) > 1) continue;
    const auto group = std::ranges::find(groups, op.inputs[1], &ExpertGroup::ids);
    if (group == groups.end()) continue; // matrices of heads
    const core::Weight& w = program.weights[op.weights[0]];
    group->experts = w.count;
    group->weights.push_back(op.weights[0]);
    group->offsets.push_back(group->block_bytes);
    group->block_bytes += expert_aligned(packed_bytes(w));
    group->file_bytes += expert_aligned(w.matrix_bytes());
  }
  std::erase_if(groups, [](const ExpertGroup& group) { return group.weights.empty(); });
  return groups;
}

ExpertSizes expert_sizes(const std::vector<ExpertGroup>& groups) {
  ExpertSizes sizes;
  for (const ExpertGroup& group : groups) {
    sizes.experts = std::max(sizes.experts, group.experts);
    sizes.all_bytes += group.experts * group.block_bytes;
    sizes.copy_bytes += group.block_bytes;
    sizes.largest_block = std::max(sizes.largest_block, group.block_bytes);
    sizes.largest_file = std::max(sizes.largest_file, group.file_bytes);
  }
  return sizes;
}

int64_t ExpertSizes::host_places(double host_bytes) const {
  if (host_bytes >= static_cast<double>(all_bytes)) return experts;
  return std::clamp<int64_t>(static_cast<int64_t>(host_bytes / static_cast<double>(copy_bytes)), 0, experts - 1);
}

int64_t ExpertSizes::spill_places(int64_t copies, int64_t host_places) const {
  if (host_places < experts) return std::max<int64_t>(experts - copies - host_places, 0);
  return largest_block == 0 ? 0 : std::min(experts - copies, copies * copy_bytes / 3 / largest_block);
}

int64_t ExpertSizes::gpu_bytes(int64_t copies, int64_t host_places) const {
  const int64_t bytes = copies * copy_bytes + spill_places(copies, host_places) * largest_block;
  return host_places == experts ? bytes : bytes + largest_file + kMovedAtOnce * largest_block;
}

int64_t ExpertSizes::copies_in(int64_t room, int64_t host_places) const {
  int64_t copies = experts;
  while (copies >= 0 && gpu_bytes(copies, host_places) > room) --copies;
  return copies;
}

} // namespace ridge::kernels::cuda
