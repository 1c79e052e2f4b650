// What types of KV caches cost: the table, and what the docs say of it.
#include "core/kv_divergence.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace ridge;
using namespace ridge::core;

namespace {

std::vector<KvDivergence> rows_of(std::string_view model, KvType keys, KvType values) {
  std::vector<KvDivergence> rows;
  for (const KvDivergence& row : kKvDivergences)
    if (row.model == model && row.keys == keys && row.values == values) rows.push_back(row);
  return rows;
}

} // namespace

TEST_CASE("every type of KV cache was measured, for contexts of doubled lengths") {
  for (const char* model : {"SmolLM2-135M", "gemma-3-270m"})
    for (const std::string& name : kv_type_names()) {
      const KvType type = kv_type_of(name);
      if (type == KvType::f32) continue;
      CAPTURE(model);
      CAPTURE(name);
      int64_t tokens = 256;
      for (const KvDivergence& row : rows_of(model, type, type)) {
        CHECK(row.tokens == 2 * tokens);
        CHECK((row.nats > 0 && row.nats < 1));
        CHECK((row.same_top > 0.5 && row.same_top <= 1));
        tokens = row.tokens;
      }
      CHECK(tokens >= 512);
    }
}

TEST_CASE("what a type of KV cache costs is that of the longest measured context within a given one, in the model that "
          "loses most") {
  using enum KvType;
  const std::vector<KvDivergence> small = rows_of("SmolLM2-135M", q4_0, q4_0),
                                  large = rows_of("gemma-3-270m", q4_0, q4_0);
  const auto most = [](const KvDivergence& a, const KvDivergence& b) { return std::max(a.nats, b.nats); };
  CHECK(highest_divergence(q4_0, q4_0, 1)->nats == most(small[0], large[0]));
  CHECK(highest_divergence(q4_0, q4_0, 512)->nats == most(small[0], large[0]));
  CHECK(highest_divergence(q4_0, q4_0, 1023)->nats == most(small[0], large[0]));
  CHECK(highest_divergence(q4_0, q4_0, 1 << 20)->nats == most(small.back(), large.back()));
  CHECK_FALSE(highest_divergence(f32, f32, 512));
}
