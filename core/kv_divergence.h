// What types of KV caches cost, measured: divergence by length of context.
#pragma once

#include "core/kv_type.h"

#include <optional>
#include <string_view>
#include <vector>

namespace ridge::core {

struct KvDivergence {
  std::string_view model;
  KvType keys, values;
  int64_t tokens;  // of context; scored are those of its second half
  double nats;     // mean per token, from f32 caches
  double same_top; // share of positions with the same likeliest token
};

inline constexpr KvDivergence kKvDivergences[] = {
#define RIDGE_KV_DIVERGENCE(model, keys, values, tokens, nats, same_top)                                               \
  {model, KvType::keys, KvType::values, tokens, nats, same_top},
#include "core/kv_divergence.def"
#undef RIDGE_KV_DIVERGENCE
};

// The highest among the measured models, each at its longest length up to `context`, or its shortest. Nothing: these
// types were not measured together.
std::optional<KvDivergence> highest_divergence(KvType keys, KvType values, int64_t context);

bool have_same_types(const KvDivergence& a, const KvDivergence& b);
std::vector<KvDivergence> measured_types();                     // the first row of each pair of types
std::vector<KvDivergence> highest_divergences(int64_t context); // of each pair, the least first

} // namespace ridge::core
