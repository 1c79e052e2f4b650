#include "quant/cache_codes.h"

#include "core/host_device/kv_rotation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ridge {
namespace {

using Block = std::array<float, core::kKvBlock>;

Block random_block(uint64_t number) {
  Block x;
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(static_cast<double>(number * 977 + i * i * 31 + i)) * 3);
  return x;
}

float decoded(const quant::CacheCode& code, int of) {
  using enum core::KvType;
  const float scale = core::f32_from_f16(code.scale);
  if (code.type == iq4_nl) return scale * static_cast<float>(quant::kIq4Levels[of]);
  const int zero = code.type == q4_0 ? 8 : code.type == q5_0 ? 16 : 0;
  return scale * static_cast<float>(of - zero) + core::f32_from_f16(code.minimum);
}

quant::CacheCode code_of(core::KvType type, const Block& x) {
  return {type, *std::ranges::min_element(x), *std::ranges::max_element(x)};
}

} // namespace

TEST_CASE("codes of cached elements are the nearest, in the range of the type") {
  using enum core::KvType;
  for (const core::KvType type : {q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl})
    for (uint64_t number = 0; number < 50; ++number) {
      CAPTURE(core::format_of(type).name);
      CAPTURE(number);
      const Block x = random_block(number);
      const quant::CacheCode code = code_of(type, x);
      const int first = type == q8_0 ? -127 : 0, last = type == q8_0 ? 127 : (1 << core::format_of(type).bits) - 1;
      for (const float value : x) {
        const int chosen = code(value);
        REQUIRE(chosen >= first);
        REQUIRE(chosen <= last);
        float nearest = std::numeric_limits<float>::infinity();
        for (int other = first; other <= last; ++other)
          nearest = std::min(nearest, std::abs(decoded(code, other) - value));
        CHECK(std::abs(decoded(code, chosen) - value) <= nearest + 0.01f); // binary16 scales
      }
    }
}

TEST_CASE("equal elements, zeros and tiny ones are cached as they are") {
  using enum core::KvType;
  for (const core::KvType type : {q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl})
    for (const float value : {0.0f, 1.5f, -1.5f, 1e-35f}) {
      CAPTURE(core::format_of(type).name);
      CAPTURE(value);
      Block x;
      x.fill(value);
      const quant::CacheCode code = code_of(type, x);
      CHECK(decoded(code, code(value)) == doctest::Approx(value).epsilon(1e-3));
    }
}

TEST_CASE("NaN and infinity get a scale that shows them") {
  using enum core::KvType;
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const core::KvType type : {q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl}) {
    for (const auto& [smallest, largest] : {std::pair(-1.0f, kInfinity), {-kInfinity, 1.0f}, {kNan, kNan}}) {
      const quant::CacheCode code(type, smallest, largest);
      CHECK(code.scale == 0x7c00);
      CHECK(code.inverse == 0);
    }
  }
}

TEST_CASE("rotated blocks keep dot products, come back, and spread what stands out") {
  for (uint64_t number = 0; number < 20; ++number) {
    Block a = random_block(number), b = random_block(number + 100);
    const Block before = a;
    const auto dot = [&] {
      double sum = 0;
      for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
      return sum;
    };
    const double expected = dot();
    core::rotate_blocks(a.data(), 32);
    core::rotate_blocks(b.data(), 32);
    CHECK(dot() == doctest::Approx(expected).epsilon(1e-4));
    core::rotate_blocks(a.data(), 32);
    for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(before[i]).epsilon(1e-4));
  }
  Block lone = {};
  lone[5] = 8;
  core::rotate_blocks(lone.data(), 32);
  for (const float value : lone) CHECK(std::abs(value) == doctest::Approx(8 / std::sqrt(32)));
}

TEST_CASE("types of KV caches have names and bytes") {
  CHECK(core::kv_type_of("q4_0") == core::KvType::q4_0);
  CHECK_THROWS(core::kv_type_of("q4_k"));
  for (const std::string& name : core::kv_type_names()) {
    const core::KvType type = core::kv_type_of(name);
    CHECK(core::format_of(type).name == name);
    CHECK(core::is_rotated(type) == core::format_of(type).rotated);
  }
  CHECK(core::head_bytes(core::KvType::q5_1, 128) == 96);
  CHECK(core::head_bytes(core::KvType::iq4_nl, 64) == 36);
  CHECK(core::head_bytes(core::KvType::bf16, 80) == 160);
}

} // namespace ridge
