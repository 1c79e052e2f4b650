#include "core/half.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ridge::core;

TEST_CASE("every f16 survives the way to f32 and back") {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float value = f32_from_f16(static_cast<uint16_t>(h));
    const uint16_t back = f16_from_f32(value);
    if (std::isnan(value)) {
      CHECK((back & 0x7fff) > 0x7c00);
    } else {
      CHECK(back == h);
    }
  }
}

TEST_CASE("f16 decodes to known values") {
  CHECK(f32_from_f16(0x3c00) == 1.0f);
  CHECK(f32_from_f16(0x0001) == 0x1p-24f);
  CHECK(f32_from_f16(0x03ff) == 0x1.ff8p-15f);
  CHECK(f32_from_f16(0x7bff) == 65504.0f);
  CHECK(f32_from_f16(0xfc00) == -INFINITY);
  CHECK(std::signbit(f32_from_f16(0x8000)));
}

TEST_CASE("f32 rounds to the nearest f16, ties to even") {
  CHECK(f16_from_f32(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(f16_from_f32(1.0f + 0x1.8p-10f) == 0x3c02);
  CHECK(f16_from_f32(65519.9f) == 0x7bff);
  CHECK(f16_from_f32(65520.0f) == 0x7c00);
  CHECK(f16_from_f32(0x1p-25f) == 0x0000);
  CHECK(f16_from_f32(0x1.8p-25f) == 0x0001);
  CHECK(f16_from_f32(0x1.8p-24f) == 0x0002);
}

TEST_CASE("f32 rounds to the nearest bf16, ties to even") {
  CHECK(bf16_from_f32(1.0f) == 0x3f80);
  CHECK(bf16_from_f32(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(bf16_from_f32(1.0f + 0x1.8p-7f) == 0x3f82);
  CHECK(f32_from_bf16(bf16_from_f32(-3.0e38f)) == doctest::Approx(-3.0e38).epsilon(0.005));
}
