// What types of KV caches cost: the table, and what the docs say of it.
#include "core/kv_divergence.h"

#include "support/reference.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <regex>

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

TEST_CASE("every type of KV cache was measured for contexts of every length") {
  for (const auto& [model, longest] : {std::pair("SmolLM2-135M", 8192), {"gemma-3-270m", 32768}})
    for (const std::string& name : kv_type_names()) {
      const KvType type = kv_type_of(name);
      if (type == KvType::f32 || type == KvType::bf16) continue; // not smaller than f16
      CAPTURE(model);
      CAPTURE(name);
      int64_t tokens = 128;
      for (const KvDivergence& row : rows_of(model, type, type)) {
        CHECK(row.tokens == 4 * tokens);
        CHECK((row.nats > 0 && row.nats < 1));
        CHECK((row.same_top > 0.5 && row.same_top <= 1));
        tokens = row.tokens;
      }
      CHECK(tokens == longest);
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
  CHECK(highest_divergence(q4_0, q4_0, 2047)->nats == most(small[0], large[0]));
  CHECK(highest_divergence(q4_0, q4_0, 2048)->nats == most(small[1], large[1]));
  CHECK(highest_divergence(q4_0, q4_0, 1 << 20)->nats == most(small.back(), large.back()));
  CHECK_FALSE(highest_divergence(f32, f32, 512));
}

TEST_CASE("the docs' table of KV caches has the measured numbers") {
  const std::string docs = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/models.md");
  const std::regex row(R"(\n(\w+)( keys, (\w+) values)? \| [\d.]+ \| (.*))");
  int found = 0;
  for (auto match = std::sregex_iterator(docs.begin(), docs.end(), row); match != std::sregex_iterator(); ++match) {
    const KvType keys = kv_type_of((*match)[1].str());
    const KvType values = (*match)[3].matched ? kv_type_of((*match)[3].str()) : keys;
    std::vector<std::string> expected;
    for (const char* model : {"SmolLM2-135M", "gemma-3-270m"}) {
      const std::vector<KvDivergence> rows = rows_of(model, keys, values);
      REQUIRE(rows.size() > 1);
      for (const KvDivergence& r : {rows[0], rows.back()}) expected.push_back(fmt::format("{:.2g}", r.nats));
    }
    CHECK((*match)[4].str() == fmt::format("{}", fmt::join(expected, " | ")));
    ++found;
  }
  CHECK(found == 8);
}
