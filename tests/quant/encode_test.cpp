// Encoders against ggml's errors, theory, and edge cases.
#include "quant/encode/encode.h"

#include "core/error.h"
#include "core/half.h"
#include "quant/encode/targets.h"
#include "support/numerics.h"
#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace ridge;
using namespace ridge::quant;

namespace {

constexpr int64_t kRows = 8, kCols = 512;

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

Bytes encoded(const FormatInfo& format, const Floats& weights, const Floats& importance = {}) {
  const auto rows = static_cast<int64_t>(weights.size()) / kCols;
  Bytes out(rows * format.row_bytes(kCols));
  encode_rows(format.type, weights.data(), rows, kCols, importance, out.data());
  return out;
}

Floats decoded(const FormatInfo& format, const Bytes& bytes) {
  Floats out(static_cast<int64_t>(bytes.size()) / format.block_bytes * format.block_weights);
  format.decode(bytes.data(), static_cast<int64_t>(out.size()), out.data());
  return out;
}

Floats round_trip(const FormatInfo& format, const Floats& weights) { return decoded(format, encoded(format, weights)); }

double weighted_error(const Floats& a, const Floats& b, const Floats& importance) {
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i)
    error += importance[i % kCols] * (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return error;
}

// The encoders' objective relative to Σ f w² (f: importance): squared error plus, per group, that along the weights.
double loss(const Floats& decoded, const Floats& weights, int64_t count, const Floats& importance = Floats(kCols, 1)) {
  double total = 0, norm = 0;
  for (size_t first = 0; first < weights.size(); first += count) {
    double error = 0, along = 0, squares = 0;
    for (size_t i = first; i < first + count; ++i) {
      const double w = weights[i], e = w - decoded[i], factor = importance[i % kCols];
      error += factor * e * e, along += factor * w * e, squares += factor * w * w;
    }
    total += error + (squares > 0 ? along * along / squares : 0.0);
    norm += squares;
  }
  return total / norm;
}

Floats gaussian(std::mt19937_64& random, int64_t count = kRows * kCols) {
  std::normal_distribution<float> normal;
  Floats weights(count);
  for (float& w : weights) w = normal(random);
  return weights;
}

Floats random_importance(std::mt19937_64& random) {
  Floats importance = gaussian(random, kCols);
  for (float& factor : importance) factor = std::exp(1.5f * factor);
  return importance;
}

template <typename Claim>
void for_each_packed(Claim claim) {
  for (const FormatInfo& format : formats())
    if (format.packed && format.stored()) {
      CAPTURE(format.name);
      claim(format);
    }
}

} // namespace

TEST_CASE("every GGUF type can be written, and what cannot is refused") {
  for (const FormatInfo& format : formats()) {
    CAPTURE(format.name);
    if (format.stored())
      CHECK(can_encode(format.type));
    else if (!can_encode(format.type))
      CHECK_THROWS_WITH_AS(encoded(format, Floats(kCols)), doctest::Contains("not written"), Error);
  }
}

TEST_CASE("no format loses more than with ggml's encoder") {
  const Floats input = tests::read_array<float>(RIDGE_SOURCE_DIR "/tests/golden/input.f32");
  for (const FormatInfo& format : formats()) {
    if (format.type == Type::F32 || !format.stored()) continue;
    CAPTURE(format.name);
    const std::string golden = tests::read_file(RIDGE_SOURCE_DIR "/tests/golden/" + std::string(format.name) + ".bin");
    Floats theirs(input.size());
    format.decode(reinterpret_cast<const std::byte*>(golden.data()), static_cast<int64_t>(input.size()), theirs.data());
    CHECK(loss(round_trip(format, input), input, 32) <= loss(theirs, input, 32));
  }
}

TEST_CASE("half of what least squares loses along the weights is made up for") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Floats weights = gaussian(random, 64 * kCols), importance = random_importance(random);
  for_each_packed([&](const FormatInfo& format) {
    if (format.type == Type::MXFP4) return; // scales are powers of two
    for (const Floats& factors : {Floats(kCols, 1.0f), importance}) {
      const Floats result = decoded(format, encoded(format, weights, factors));
      double along = 0, squares = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const double w = weights[i], factor = factors[i % kCols];
        along += factor * w * (w - result[i]), squares += factor * w * w;
      }
      const double error = weighted_error(weights, result, factors) / squares;
      if (error < 0.01) continue; // hidden by other errors in 32,768 weights
      // Least squares leaves an error along the weights equal to the relative squared error.
      CHECK(along / squares > 0.3 * error);
      CHECK(along / squares < 0.75 * error);
    }
  });
}

TEST_CASE("the error on Gaussian weights is within six times the least that the bits allow") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Floats weights = gaussian(random);
  for_each_packed([&](const FormatInfo& format) {
    const double error = tests::nmse(round_trip(format, weights), weights);
    const double least = std::exp2(-2 * format.bits_per_weight()); // rate-distortion bound of a Gaussian source
    CHECK(error > 0.8 * least);                                    // 0.8: a sample of 4096
    CHECK(error < 6 * least);
  });
}

TEST_CASE("the result is never worse than writing zeros, and finite, whatever the weights") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::map<std::string, Floats> inputs;
  Floats& heavy = inputs["heavy tails"] = gaussian(random);
  for (float& w : heavy) w = w * w * w;
  Floats& outliers = inputs["outlier channels"] = gaussian(random);
  for (size_t i = 0; i < outliers.size(); i += 97) outliers[i] *= 1000.0f;
  Floats& spikes = inputs["one weight per 256"] = Floats(kRows * kCols);
  for (size_t i = 5; i < spikes.size(); i += 256) spikes[i] = -3.0f;
  Floats& wide = inputs["every magnitude"] = gaussian(random);
  for (float& w : wide) w = std::ldexp(w, static_cast<int>(random() % 250) - 140);
  Floats& tiny = inputs["denormals"] = gaussian(random);
  for (float& w : tiny) w *= 1e-39f;
  Floats& huge = inputs["near the largest float"] = gaussian(random);
  for (float& w : huge) w = std::copysign(3e38f, w);
  inputs["constant"] = Floats(kRows * kCols, 0.37f);
  inputs["negative constant"] = Floats(kRows * kCols, -0.37f);
  for (const auto& [name, weights] : inputs) {
    CAPTURE(name);
    const Floats zeros(weights.size());
    for_each_packed([&](const FormatInfo& format) {
      const Floats result = round_trip(format, weights);
      CHECK(std::all_of(result.begin(), result.end(), [](float w) { return std::isfinite(w); }));
      CHECK(tests::nmse(result, weights) <= 1.0);
    });
  }
}

TEST_CASE("what lies beyond the range of a format is found in its bytes") {
  for_each_packed([&](const FormatInfo& format) {
    const bool wide = format.type == Type::MXFP4 || format.type == Type::NF4 || format.type == Type::FP4;
    for (const float weight : {1000.0f, -1e30f, 1e30f}) {
      CAPTURE(weight);
      Floats weights(kRows * kCols, 0.5f);
      for (size_t i = 5; i < weights.size(); i += 32) weights[i] = weight;
      Bytes bytes(kRows * format.row_bytes(kCols));
      quant::encode_rows(format.type, weights.data(), kRows, kCols, {}, bytes.data());
      const auto check = [&] { quant::check_range(format.type, weights.data(), bytes.data(), kRows, kCols); };
      if (wide || std::abs(weight) < 1e4f)
        CHECK_NOTHROW(check());
      else
        CHECK_THROWS_WITH_AS(check(), doctest::Contains("row 0: the weight"), Error);
    }
  });
}

TEST_CASE("zeros stay exactly zero") {
  for_each_packed([](const FormatInfo& format) {
    const Floats result = round_trip(format, Floats(kRows * kCols));
    CHECK(std::all_of(result.begin(), result.end(), [](float w) { return w == 0.0f; }));
  });
}

TEST_CASE(
    "a constant row keeps its value to a tenth, and to a thousandth where scales are binary16 and codes integers") {
  for (float value : {0.37f, -0.37f}) {
    CAPTURE(value);
    for_each_packed([&](const FormatInfo& format) {
      const Floats weights(kRows * kCols, value);
      const double error = tests::nmse(round_trip(format, weights), weights);
      const bool float_scales = format.type == Type::MXFP4 || format.type == Type::NVFP4;
      const bool codebook = format.name.starts_with("IQ") && !format.name.starts_with("IQ4");
      CHECK(error < (codebook ? 0.15 : float_scales ? 0.01 : 1e-6)); // some codebooks have no point of equal weights
    });
  }
}

TEST_CASE("what a block format can say exactly, it says again") {
  for (Type type : {Type::F16, Type::BF16, Type::Q4_0, Type::Q5_0, Type::Q8_0, Type::Q4_1, Type::Q5_1, Type::Q1_0,
                    Type::Q2_0, Type::TQ1_0, Type::TQ2_0, Type::IQ4_NL, Type::MXFP4, Type::NVFP4}) {
    const FormatInfo& info = format(type);
    CAPTURE(info.name);
    const std::string golden = tests::read_file(RIDGE_SOURCE_DIR "/tests/golden/" + std::string(info.name) + ".bin");
    Bytes bytes(4 * info.row_bytes(kCols));
    std::memcpy(bytes.data(), golden.data(), bytes.size());
    const Floats weights = decoded(info, bytes);
    CHECK(tests::nmse(round_trip(info, weights), weights) < 1e-6);
  }
}

TEST_CASE("NF4 and FP4 take the largest of 64 weights as the scale and the nearest level of each") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (Type type : {Type::NF4, Type::FP4}) {
    const FormatInfo& info = format(type);
    CAPTURE(info.name);
    Floats weights = gaussian(random);
    weights[70] = 5.5f;
    const Floats result = round_trip(info, weights);
    CHECK(result[70] == doctest::Approx(5.5f)); // in steps of 1/127
    CHECK(tests::nmse(round_trip(info, result), result) < 1e-4);
    const double error = tests::nmse(result, weights); // FP4 has no level between 1/192 and 1/6
    CHECK(error < (type == Type::NF4 ? 0.012 : 0.02));
    CHECK(error > 0.005);
    CHECK(round_trip(info, Floats(kCols)) == Floats(kCols));
  }
}

TEST_CASE("importance lowers the error that it weighs, and its scale does not matter") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Floats weights = gaussian(random), importance = random_importance(random);
  Floats scaled = importance;
  for (float& factor : scaled) factor *= 0x1p-100f;
  for_each_packed([&](const FormatInfo& format) {
    const auto lost = [&](const Floats& result) { // power-of-two scales cannot be lengthened
      if (format.type == Type::MXFP4) return weighted_error(result, weights, importance);
      return loss(result, weights, format.block_weights, importance);
    };
    const Bytes with = encoded(format, weights, importance);
    CHECK(lost(decoded(format, with)) < lost(round_trip(format, weights)));
    CHECK(encoded(format, weights, scaled) == with);
  });
}

TEST_CASE("equal factors, all zeros among them, are no importance") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Floats weights = gaussian(random);
  for_each_packed([&](const FormatInfo& format) {
    const Bytes plain = encoded(format, weights);
    CHECK(encoded(format, weights, Floats(kCols, 0.0f)) == plain);
    CHECK(encoded(format, weights, Floats(kCols, 4.0f)) == plain);
  });
}

TEST_CASE("threads, instruction sets and neighbours change no byte") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Floats weights = gaussian(random, 3 * kCols), importance = random_importance(random);
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (const FormatInfo& format : formats()) {
    if (!can_encode(format.type)) continue;
    CAPTURE(format.name);
    const Bytes expected = encoded(format, weights, importance);
    Bytes parallel(expected.size());
    encode_rows_parallel(format.type, weights.data(), 3, kCols, importance, parallel.data());
    CHECK(parallel == expected);
    const Bytes last_row = encoded(format, Floats(weights.end() - kCols, weights.end()), importance);
    CHECK(std::equal(last_row.begin(), last_row.end(), expected.end() - format.row_bytes(kCols)));
    for (int64_t rest = usable; rest != 0; rest &= rest - 1) {
      const int64_t target = rest & -rest;
      hwy::SetSupportedTargetsForTest(target);
      CAPTURE(hwy::TargetName(target));
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      CHECK(encoded(format, weights, importance) == expected);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

TEST_CASE("what is not a finite number is refused, with its place") {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    Floats weights(2 * kCols, 1.0f);
    weights[kCols + 7] = bad;
    CHECK_THROWS_WITH_AS(encoded(format(Type::Q4_K), weights), doctest::Contains("row 1, column 7"), Error);
    CHECK_THROWS_WITH_AS(encoded(format(Type::F16), weights), doctest::Contains("row 1, column 7"), Error);
  }
  for (float bad : {NAN, INFINITY, -1.0f}) {
    Floats importance(kCols, 1.0f);
    importance[9] = bad;
    CHECK_THROWS_WITH_AS(encoded(format(Type::Q4_K), Floats(kCols), importance), doctest::Contains("column 9"), Error);
  }
  Floats negative_zero(kCols, -0.0f);
  CHECK_NOTHROW(encoded(format(Type::Q4_K), Floats(kCols), negative_zero));
}

TEST_CASE("rows of no whole blocks and importance of another length are refused") {
  Bytes out(4096);
  const Floats weights(512);
  CHECK_THROWS_AS(encode_rows(Type::Q4_K, weights.data(), 1, 128, {}, out.data()), Error);
  CHECK_THROWS_AS(encode_rows(Type::Q4_K, weights.data(), 2, 256, weights, out.data()), Error);
}
