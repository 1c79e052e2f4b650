#include "core/kv_divergence.h"

#include <algorithm>
#include <vector>

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

} // namespace ridge::core
