#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {
namespace {

// By expert, then token. Uses reserved memory only.
void sort_by_expert(const int32_t* ids, int64_t pairs, int64_t used, ExpertGroups& out) {
  out.pair.resize(pairs);
  for (int64_t i = 0; i < pairs; ++i) out.pair[i] = static_cast<int32_t>(i);
  std::sort(out.pair.begin(), out.pair.end(),
            [&](int32_t a, int32_t b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; });
  out.token.resize(pairs);
  out.groups.clear();
  for (int64_t i = 0; i < pairs; ++i) {
    out.token[i] = static_cast<int32_t>(out.pair[i] / used);
    const int64_t expert = ids[out.pair[i]];
    if (out.groups.empty() || out.groups.back().expert != expert)
      out.groups.push_back({expert, static_cast<size_t>(i), 0});
    ++out.groups.back().count;
  }
}

} // namespace

const ExpertGroups& Lowering::expert_groups(core::ValueId ids, int64_t experts) {
  const auto [found, is_new] = groups_.try_emplace(ids);
  ExpertGroups& groups = found->second;
  if (!is_new) return groups;
  groups.resource = new_resource();
  const auto* id = reinterpret_cast<const int32_t*>(value(ids));
  const bool gathered = info(ids).gathered;
  const int64_t used = info(ids).width;
  const size_t most = (gathered ? config_.max_outputs : config_.max_batch) * used;
  groups.pair.reserve(most);
  groups.token.reserve(most);
  groups.groups.reserve(experts);
  schedule_.add(
      {slot(ids)}, {groups.resource}, [] { return 1; },
      [=, this, &groups](int64_t, int) { sort_by_expert(id, batch_.rows(gathered) * used, used, groups); });
  return groups;
}

} // namespace ridge::kernels::cpu
