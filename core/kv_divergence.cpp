#include "core/kv_divergence.h"

#include <algorithm>

namespace ridge::core {

std::optional<KvDivergence> highest_divergence(KvType keys, KvType values, int64_t context) {
  std::vector<KvDivergence> found; // one of each model
  for (const KvDivergence& row : kKvDivergences) {
    if (row.keys != keys || row.values != values) continue;
    const auto other = std::ranges::find(found, row.model, &KvDivergence::model);
    if (other == found.end())
      found.push_back(row);
    else if (row.tokens <= context ? row.tokens > other->tokens || other->tokens > context : row.tokens < other->tokens)
      *other = row;
  }
  if (found.empty()) return std::nullopt;
  return *std::ranges::max_element(found, {}, &KvDivergence::nats);
}

bool have_same_types(const KvDivergence& a, const KvDivergence& b) { return a.keys == b.keys && a.values == b.values; }

std::vector<KvDivergence> measured_types() {
  std::vector<KvDivergence> found;
  for (const KvDivergence& row : kKvDivergences)
    if (std::ranges::none_of(found, [&](const KvDivergence& other) { return have_same_types(other, row); }))
      found.push_back(row);
  return found;
}

std::vector<KvDivergence> highest_divergences(int64_t context) {
  std::vector<KvDivergence> found = measured_types();
  for (KvDivergence& row : found) row = *highest_divergence(row.keys, row.values, context);
  std::ranges::stable_sort(found, {}, &KvDivergence::nats);
  return found;
}

} // namespace ridge::core
