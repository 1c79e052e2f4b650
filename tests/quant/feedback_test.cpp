// Codes, Hessians, error feedback and scales on correlated inputs.
#include "quant/code_map.h"
#include "quant/encode/encode.h"
#include "quant/error_stats.h"
#include "quant/feedback/awq.h"
#include "quant/feedback/gptq.h"
#include "support/correlated.h"
#include "support/numerics.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace ridge;
using quant::Type;

using tests::correlated_inputs;
using tests::loss;
using tests::random_weights;

TEST_CASE("the formats that keep a code for each weight have a map of them, and codebooks have none") {
  for (const Type type :
       {Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1, Type::Q8_0, Type::Q2_K, Type::Q3_K, Type::Q4_K, Type::Q5_K,
        Type::Q6_K, Type::IQ4_NL, Type::IQ4_XS, Type::MXFP4, Type::NVFP4, Type::TQ2_0, Type::Q1_0, Type::Q2_0}) {
    CAPTURE(quant::format(type).name);
    CHECK(quant::CodeMap::of(type));
  }
  for (const Type type : {Type::F16, Type::IQ1_S, Type::IQ1_M, Type::IQ2_XXS, Type::IQ2_XS, Type::IQ2_S, Type::IQ3_XXS,
                          Type::IQ3_S, Type::TQ1_0}) {
    CAPTURE(quant::format(type).name);
    CHECK_FALSE(quant::CodeMap::of(type));
  }
}

TEST_CASE("codes set in a block are what it decodes to, and nothing else changes") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const quant::FormatInfo& format : quant::formats()) {
    const quant::CodeMap* map = quant::CodeMap::of(format.type);
    if (!map || !quant::can_encode(format.type)) continue;
    CAPTURE(format.name);
    const auto weights = random_weights(random, format.block_weights);
    std::vector<std::byte> block(static_cast<size_t>(format.block_bytes));
    quant::encode_rows(format.type, weights.data(), 1, format.block_weights, {}, block.data());
    std::vector<quant::Scales> scales(static_cast<size_t>(format.block_weights / 16));
    map->scales(block.data(), scales.data());
    std::vector<float> expected(weights.size()), decoded(weights.size());
    for (int64_t i = 0; i < format.block_weights; ++i) {
      const quant::Scales s = scales[i / 16];
      const float wanted = s.scale * static_cast<float>(static_cast<int>(random() % 19) - 9) + s.offset;
      const int pattern = map->nearest(s.scale != 0 ? (wanted - s.offset) / s.scale : 0);
      map->set(block.data(), i, pattern);
      expected[i] = s.scale * map->level(pattern) + s.offset;
    }
    format.decode(block.data(), format.block_weights, decoded.data());
    CHECK(tests::nmse(decoded, expected) < 1e-12);
  }
}

TEST_CASE("the nearest level is the nearest") {
  const quant::CodeMap* map = quant::CodeMap::of(Type::IQ4_NL);
  REQUIRE(map);
  for (float x = -140; x < 140; x += 0.37f) {
    float best = INFINITY;
    for (int pattern = 0; pattern < 16; ++pattern) best = std::min(best, std::fabs(map->level(pattern) - x));
    CHECK(std::fabs(map->level(map->nearest(x)) - x) == best);
  }
}

TEST_CASE("a Hessian is the sum of outer products, however its inputs come") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 150, count = 203;
  const auto x = correlated_inputs(random, count, cols);
  quant::CpuHessian whole(cols), parts(cols);
  whole.add(x);
  parts.add(std::span(x).first(70 * cols));
  parts.add(std::span(x).subspan(70 * cols));
  const auto errors = random_weights(random, 3 * cols);
  double expected = 0;
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t t = 0; t < count; ++t) {
      double dot = 0;
      for (int64_t j = 0; j < cols; ++j) dot += static_cast<double>(errors[r * cols + j]) * x[t * cols + j];
      expected += dot * dot;
    }
  CHECK(whole.output_error(errors) == doctest::Approx(expected).epsilon(1e-4));
  CHECK(parts.output_error(errors) == doctest::Approx(expected).epsilon(1e-4));
  double square = 0;
  for (int64_t t = 0; t < count; ++t) square += static_cast<double>(x[t * cols + 5]) * x[t * cols + 5];
  CHECK(whole.mean_squares()[5] == doctest::Approx(square / count).epsilon(1e-4));
}

TEST_CASE("M D Mᵀ is the damped Hessian") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 140;
  quant::CpuHessian hessian(cols);
  hessian.add(correlated_inputs(random, 300, cols));
  const auto factor = hessian.factor(0.01);
  const auto errors = random_weights(random, cols);
  double expected = hessian.output_error(errors), mean = 0, length = 0, found = 0;
  for (const float m : hessian.mean_squares()) mean += m * hessian.inputs() / cols;
  for (const float e : errors) length += static_cast<double>(e) * e;
  expected += 0.01 * mean * length;
  for (int64_t k = 0; k < cols; ++k) {
    double dot = 0;
    for (int64_t i = 0; i <= k; ++i) dot += static_cast<double>(errors[i]) * factor.m[i * cols + k];
    found += factor.d[k] * dot * dot;
  }
  CHECK(found == doctest::Approx(expected).epsilon(1e-3));
}

TEST_CASE("feedback beats importance, which beats neither, on the output's error") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 512, rows = 24;
  quant::CpuHessian hessian(cols);
  hessian.add(correlated_inputs(random, 2000, cols));
  const auto factor = hessian.factor(0.01);
  const auto weights = random_weights(random, rows * cols);
  for (const Type type : {Type::Q4_0, Type::Q4_K, Type::Q3_K, Type::Q2_K, Type::IQ4_XS, Type::Q6_K, Type::IQ3_S,
                          Type::IQ3_XXS, Type::IQ2_S, Type::IQ2_XS, Type::IQ2_XXS, Type::IQ1_M, Type::IQ1_S}) {
    REQUIRE(quant::can_encode_with_feedback(type));
    CAPTURE(quant::format(type).name);
    std::vector<std::byte> plain(static_cast<size_t>(rows * quant::format(type).row_bytes(cols))),
        weighted(plain.size()), fed(plain.size());
    quant::encode_rows(type, weights.data(), rows, cols, {}, plain.data());
    quant::encode_rows(type, weights.data(), rows, cols, hessian.mean_squares(), weighted.data());
    quant::encode_with_feedback(type, weights.data(), rows, cols, factor, fed.data());
    const double plain_loss = loss(hessian, type, weights, plain),
                 weighted_loss = loss(hessian, type, weights, weighted);
    CHECK(weighted_loss < plain_loss);
    // At two bits per weight and below, errors are too large to compensate well.
    const double most = quant::format(type).bits_per_weight() < 3 ? 0.8 : 0.5;
    CHECK(loss(hessian, type, weights, fed) < most * weighted_loss);
  }
}

TEST_CASE("without correlation, feedback changes little, and without inputs, it is plain encoding's equal") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 256, rows = 8;
  const auto weights = random_weights(random, rows * cols);
  const quant::CpuHessian empty(cols);
  std::vector<std::byte> plain(static_cast<size_t>(rows * quant::format(Type::Q4_0).row_bytes(cols))),
      fed(plain.size());
  quant::encode_rows(Type::Q4_0, weights.data(), rows, cols, {}, plain.data());
  quant::encode_with_feedback(Type::Q4_0, weights.data(), rows, cols, empty.factor(0.01), fed.data());
  std::vector<float> a(weights.size()), b(weights.size());
  quant::format(Type::Q4_0).decode(plain.data(), rows * cols, a.data());
  quant::format(Type::Q4_0).decode(fed.data(), rows * cols, b.data());
  CHECK(tests::nmse(b, weights) <= tests::nmse(a, weights) * 1.0001);
}

TEST_CASE("scales never make the sample's output worse, and shared columns share theirs") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 128;
  quant::CpuHessian hessian(cols);
  hessian.add(correlated_inputs(random, 600, cols));
  const std::vector<quant::AwqMatrix> matrices = {{Type::Q4_0, random_weights(random, 16 * cols)}};
  const auto own = quant::search_scales(matrices, hessian, {});
  CHECK(own.error <= own.plain);
  std::vector<int64_t> group(static_cast<size_t>(cols));
  for (int64_t j = 0; j < cols; ++j) group[j] = j % 32;
  const auto shared = quant::search_scales(matrices, hessian, group);
  CHECK(shared.error <= shared.plain);
  if (!shared.scale.empty()) CHECK(shared.scale[3] == shared.scale[35]);
}

TEST_CASE("error statistics agree with their definitions") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 1033;
  const auto a = random_weights(random, cols);
  auto b = a, w = random_weights(random, cols);
  for (float& v : b) v += 0.001f * static_cast<float>(random() % 7);
  for (float& v : w) v = std::fabs(v);
  quant::ErrorStats stats;
  stats.add_row(a.data(), b.data(), cols, w.data());
  double error = 0, signal = 0, weighted = 0, dot = 0, decoded = 0, largest = 0;
  for (int64_t i = 0; i < cols; ++i) {
    const double d = static_cast<double>(b[i]) - a[i];
    error += d * d, weighted += w[i] * d * d, signal += static_cast<double>(a[i]) * a[i];
    dot += static_cast<double>(a[i]) * b[i], decoded += static_cast<double>(b[i]) * b[i];
    largest = std::max(largest, std::fabs(d));
  }
  CHECK(stats.rmse() == doctest::Approx(std::sqrt(error / cols)).epsilon(1e-5));
  CHECK(stats.sqnr_db() == doctest::Approx(10 * std::log10(signal / error)).epsilon(1e-5));
  CHECK(stats.cosine() == doctest::Approx(dot / std::sqrt(signal * decoded)).epsilon(1e-6));
  CHECK(stats.weighted_error == doctest::Approx(weighted).epsilon(1e-5));
  CHECK(stats.max_error == doctest::Approx(largest).epsilon(1e-5));
}
