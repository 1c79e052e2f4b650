// GPU and CPU encoders produce equal bytes.
#include "kernels/cuda/encode/encode.h"

#include "core/error.h"
#include "quant/encode/encode.h"
#include "support/numerics.h"

#include <cmath>

using namespace ridge;
using namespace ridge::quant;

namespace {

using Bytes = std::vector<std::byte>;

std::vector<float> random_weights(std::mt19937_64& random, int64_t rows, int64_t cols) {
  std::normal_distribution<float> normal;
  std::vector<float> weights(rows * cols);
  for (int64_t i = 0; i < rows * cols; ++i) {
    weights[i] = std::ldexp(normal(random), static_cast<int>(i / cols % 40) - 30);
    if (i % 211 == 0) weights[i] *= 30.0f;
    if (i / 64 % 37 == 0) weights[i] = 0.0f;
  }
  return weights;
}

std::unique_ptr<kernels::cuda::Encoder> encoder() {
  auto made = kernels::cuda::make_encoder();
  if (!made) MESSAGE("skipped: no CUDA device");
  return made;
}

} // namespace

TEST_CASE("the GPU encodes every type of a file") {
  const auto gpu = encoder();
  if (!gpu) return;
  for (const FormatInfo& info : tests::share_of(formats())) {
    CAPTURE(info.name);
    CHECK(gpu->can_encode(info.type) == info.stored());
  }
}

TEST_CASE("the GPU writes the bytes that the CPU writes, with importance and without") {
  const auto gpu = encoder();
  if (!gpu) return;
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 301, cols = 768;
  const std::vector<float> weights = random_weights(random, rows, cols);
  std::vector<float> importance = random_weights(random, 1, cols);
  for (float& factor : importance) factor = std::abs(factor);
  for (const FormatInfo& info : tests::share_of(formats())) {
    if (!gpu->can_encode(info.type)) continue;
    CAPTURE(info.name);
    for (const std::span<const float> factors : {std::span<const float>(), std::span<const float>(importance)}) {
      Bytes expected(rows * info.row_bytes(cols)), actual(expected.size());
      encode_rows_parallel(info.type, weights.data(), rows, cols, factors, expected.data());
      gpu->encode_rows(Type::F32, reinterpret_cast<const std::byte*>(weights.data()), info.type, rows, cols, factors,
                       actual.data());
      const auto [a, b] = std::mismatch(expected.begin(), expected.end(), actual.begin());
      CHECK(a == expected.end());
    }
  }
}

TEST_CASE("the GPU decodes every type as the CPU does before it encodes") {
  const auto gpu = encoder();
  if (!gpu) return;
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 5, cols = 512;
  const std::vector<float> weights = random_weights(random, rows, cols);
  for (const FormatInfo& info : tests::share_of(formats())) {
    if (!can_encode(info.type)) continue;
    CAPTURE(info.name);
    Bytes packed(rows * info.row_bytes(cols)), expected(4 * rows * cols), actual(expected.size());
    encode_rows(info.type, weights.data(), rows, cols, {}, packed.data());
    info.decode(packed.data(), rows * cols, reinterpret_cast<float*>(expected.data()));
    gpu->encode_rows(info.type, packed.data(), Type::F32, rows, cols, {}, actual.data());
    CHECK(actual == expected);
  }
}

TEST_CASE("a tensor of several chunks comes back whole, and a weight that is not finite is found in any of them") {
  const auto gpu = encoder();
  if (!gpu) return;
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 10000, cols = 4 * 1024;
  std::vector<float> weights = random_weights(random, 1, cols);
  weights.resize(rows * cols);
  for (int64_t i = cols; i < rows * cols; ++i)
    weights[i] = weights[i - cols] + 1e-3f * static_cast<float>(i / cols % 7);
  const auto* source = reinterpret_cast<const std::byte*>(weights.data());
  Bytes expected(rows * format(Type::Q8_0).row_bytes(cols)), actual(expected.size());
  encode_rows_parallel(Type::Q8_0, weights.data(), rows, cols, {}, expected.data());
  gpu->encode_rows(Type::F32, source, Type::Q8_0, rows, cols, {}, actual.data());
  CHECK(actual == expected);

  weights[9000 * cols + 17] = NAN;
  CHECK_THROWS_WITH_AS(gpu->encode_rows(Type::F32, source, Type::Q8_0, rows, cols, {}, actual.data()),
                       doctest::Contains("row 9000, column 17"), Error);
  weights[9000 * cols + 17] = 0.0f;
  gpu->encode_rows(Type::F32, source, Type::Q8_0, rows, cols, {}, actual.data());
  CHECK(std::equal(actual.begin(), actual.begin() + 1000, expected.begin()));
}
