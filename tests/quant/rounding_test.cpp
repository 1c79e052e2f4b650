// Descent from encoded rows, in every format.
#include "quant/encode/encode.h"
#include "quant/feedback/block_codes.h"
#include "quant/feedback/gptq.h"
#include "quant/feedback/rounding.h"
#include "support/correlated.h"
#include "support/numerics.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace ridge;
using quant::Type;

namespace {

std::vector<Type> types_with_codes() {
  std::vector<Type> types;
  for (const quant::FormatInfo& format : quant::formats())
    if (quant::BlockCodes::of(format.type)) types.push_back(format.type);
  return types;
}

// H in full, and the factor of its damped form.
struct Inputs {
  quant::CpuHessian hessian;
  quant::CpuHessian::Factor factor;
  std::vector<float> h;

  Inputs(std::mt19937_64& random, int64_t count, int64_t cols) : hessian(cols), h(static_cast<size_t>(cols * cols)) {
    const auto x = tests::correlated_inputs(random, count, cols);
    hessian.add(x);
    factor = hessian.factor(0.01);
    for (int64_t i = 0; i < cols; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < count; ++t) sum += static_cast<double>(x[t * cols + i]) * x[t * cols + j];
        h[i * cols + j] = h[j * cols + i] = static_cast<float>(sum);
      }
  }
  quant::Quadratic quadratic() const { return {factor.cols, h.data(), factor.damping}; }

  // The error of `packed` by the damped quadratic form, in double precision.
  double error(Type type, const std::vector<float>& weights, const std::vector<std::byte>& packed) const {
    std::vector<float> e(weights.size());
    quant::format(type).decode(packed.data(), std::ssize(weights), e.data());
    for (size_t i = 0; i < e.size(); ++i) e[i] -= weights[i];
    const int64_t cols = factor.cols;
    double sum = 0;
    for (int64_t r = 0; r < std::ssize(e) / cols; ++r)
      for (int64_t i = 0; i < cols; ++i) {
        double dot = static_cast<double>(factor.damping) * e[r * cols + i];
        for (int64_t j = 0; j < cols; ++j) dot += static_cast<double>(h[i * cols + j]) * e[r * cols + j];
        sum += dot * e[r * cols + i];
      }
    return sum;
  }
};

std::vector<std::byte> pack(Type type, const quant::Rounding& rounding, int64_t rows, int64_t cols) {
  const quant::BlockCodes& codes = *quant::BlockCodes::of(type);
  const int64_t bytes = quant::format(type).block_bytes, blocks = cols / codes.block;
  std::vector<std::byte> out(static_cast<size_t>(rows * blocks * bytes));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < blocks; ++b) codes.pack(rounding.parts(r, b), out.data() + (r * blocks + b) * bytes);
  return out;
}

// Keeps the gradient of several groups of Descent::kRows lanes.
class Joined final : public quant::Gradient {
 public:
  Joined(const quant::Quadratic& quadratic, int64_t lanes) : lanes_(lanes) {
    for (int64_t lane = 0; lane < lanes; lane += kRows) parts_.emplace_back(quadratic);
  }
  std::vector<double> start(std::span<const float> error) override {
    std::vector<double> errors;
    for (size_t p = 0; p < parts_.size(); ++p)
      std::ranges::copy(parts_[p].start(of(error, p)), std::back_inserter(errors));
    return errors;
  }
  void keep_second(std::span<const uint8_t> marked) override {
    for (size_t p = 0; p < parts_.size(); ++p) parts_[p].keep_second(marked.subspan(p * kRows, kRows));
  }
  void read(int64_t first, std::span<float> gradient) override {
    std::vector<float> some(gradient.size() / parts_.size());
    for (size_t p = 0; p < parts_.size(); ++p) {
      parts_[p].read(first, some);
      for (size_t i = 0; i < some.size(); ++i) gradient[i / kRows * lanes_ + p * kRows + i % kRows] = some[i];
    }
  }
  void move(int64_t first, std::span<const float> moved, std::span<const float> gradient) override {
    for (size_t p = 0; p < parts_.size(); ++p) parts_[p].move(first, of(moved, p), of(gradient, p));
  }

 private:
  static constexpr size_t kRows = quant::Descent::kRows;
  std::vector<float> of(std::span<const float> all, size_t p) const {
    std::vector<float> some(all.size() / parts_.size());
    for (size_t i = 0; i < some.size(); ++i) some[i] = all[i / kRows * lanes_ + p * kRows + i % kRows];
    return some;
  }
  int64_t lanes_;
  std::vector<quant::CpuGradient> parts_;
};

} // namespace

TEST_CASE("every type but floats can be rounded by descent") {
  for (const quant::FormatInfo& format : quant::formats()) {
    if (!format.stored() || !quant::can_encode(format.type)) continue;
    CAPTURE(format.name);
    CHECK((quant::BlockCodes::of(format.type) != nullptr) == format.packed);
  }
}

TEST_CASE("each pass lowers the error, and the error it counts is that of the packed rows") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 512, rows = 11;
  const Inputs inputs(random, 900, cols);
  const quant::Quadratic quadratic = inputs.quadratic();
  const auto weights = tests::random_weights(random, rows * cols);
  for (const Type type : types_with_codes()) {
    CAPTURE(quant::format(type).name);
    quant::CpuGradient gradient(quadratic);
    quant::Rounding descent(type, quadratic, weights.data(), rows, gradient);
    descent.start(quant::feedback_parts(type, weights.data(), rows, cols, inputs.factor));
    const double first = inputs.error(type, weights, pack(type, descent, rows, cols));
    CHECK(descent.error() == doctest::Approx(first).epsilon(1e-3));
    double before = descent.error();
    for (int i = 0; i < 3; ++i) {
      descent.pass();
      CHECK(descent.error() <= before);
      before = descent.error();
    }
    const double last = inputs.error(type, weights, pack(type, descent, rows, cols));
    CHECK(descent.error() == doctest::Approx(last).epsilon(2e-3));
    CHECK(last < 0.999 * first);
  }
}

TEST_CASE("rounding starts from the better of feedback and importance, row by row, and ends below both") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 256, rows = 21;
  const Inputs inputs(random, 600, cols);
  const auto weights = tests::random_weights(random, rows * cols);
  const auto importance = inputs.hessian.mean_squares();
  for (const Type type : types_with_codes()) {
    CAPTURE(quant::format(type).name);
    const int64_t bytes = quant::format(type).row_bytes(cols);
    std::vector<std::byte> fed(static_cast<size_t>(rows * bytes)), weighted(fed.size()), rounded(fed.size());
    quant::encode_with_feedback(type, weights.data(), rows, cols, inputs.factor, fed.data());
    quant::encode_rows(type, weights.data(), rows, cols, importance, weighted.data());
    quant::encode_rounded(type, weights.data(), rows, inputs.quadratic(), inputs.factor, importance, rounded.data());
    for (int64_t r = 0; r < rows; ++r) {
      const auto of_row = [&](const std::vector<std::byte>& packed) {
        return inputs.error(type, {&weights[r * cols], &weights[r * cols] + cols},
                            {&packed[r * bytes], &packed[r * bytes] + bytes});
      };
      CHECK(of_row(rounded) <= 1.0001 * std::min(of_row(fed), of_row(weighted)));
    }
    // The same through a Hessian, which keeps H as a triangle.
    quant::CpuHessian hessian = inputs.hessian;
    std::vector<std::byte> again(rounded.size());
    hessian.round(type, weights.data(), rows, again.data());
    CHECK(inputs.error(type, weights, again) == doctest::Approx(inputs.error(type, weights, rounded)).epsilon(0.02));
  }
}

TEST_CASE("all rows at once are rounded as some at a time") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 512, rows = 2 * quant::Descent::kRows + 7;
  const Inputs inputs(random, 900, cols);
  const quant::Quadratic quadratic = inputs.quadratic();
  const auto weights = tests::random_weights(random, rows * cols);
  const auto importance = inputs.hessian.mean_squares();
  for (const Type type : {Type::Q4_K, Type::Q2_K, Type::IQ3_S}) {
    CAPTURE(quant::format(type).name);
    std::vector<std::byte> some(static_cast<size_t>(rows * quant::format(type).row_bytes(cols))), all(some.size());
    const auto encode = [&](std::vector<std::byte>& out, const quant::MakeGradient& make) {
      quant::encode_rounded(type, weights.data(), rows, quadratic, inputs.factor, importance, out.data(), make);
    };
    encode(some, nullptr);
    encode(all, [&](int64_t lanes) { return std::make_unique<Joined>(quadratic, lanes); });
    CHECK(all == some);
  }
}

TEST_CASE("the factors and levels of unpacked blocks decode as the format does") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const Type type : types_with_codes()) {
    CAPTURE(quant::format(type).name);
    const quant::BlockCodes& codes = *quant::BlockCodes::of(type);
    if (codes.factors == quant::BlockCodes::Factors::points) continue;
    const auto weights = tests::random_weights(random, codes.block);
    quant::Parts parts;
    codes.search(weights.data(), nullptr, 1, &parts);
    for (int n = -1; n < quant::BlockCodes::kNeighbours; ++n) {
      if (n >= 0) codes.neighbour(parts, 0, n);
      std::vector<std::byte> packed(static_cast<size_t>(quant::format(type).block_bytes));
      codes.pack(parts, packed.data());
      std::vector<float> decoded(weights.size());
      quant::format(type).decode(packed.data(), codes.block, decoded.data());
      for (int i = 0; i < codes.block; ++i) {
        const quant::Scales s = codes.scales(parts, i / codes.group);
        CHECK(s.scale * static_cast<float>(parts.code[i]) + s.offset == decoded[static_cast<size_t>(i)]);
        CHECK(codes.nearest(static_cast<float>(parts.code[i])) == static_cast<float>(parts.code[i]));
      }
    }
  }
}

TEST_CASE("zero weights stay zero, and weights that are not finite are refused") {
  std::mt19937_64 random(3);
  const int64_t cols = 256;
  Inputs inputs(random, 300, cols);
  for (const Type type : types_with_codes()) {
    CAPTURE(quant::format(type).name);
    std::vector<float> weights(static_cast<size_t>(cols)), decoded(weights.size());
    std::vector<std::byte> packed(static_cast<size_t>(quant::format(type).row_bytes(cols)));
    inputs.hessian.round(type, weights.data(), 1, packed.data());
    quant::format(type).decode(packed.data(), cols, decoded.data());
    CHECK(std::ranges::all_of(decoded, [](float w) { return w == 0; }));
    weights[7] = NAN;
    CHECK_THROWS_WITH(inputs.hessian.round(type, weights.data(), 1, packed.data()), doctest::Contains("column 7"));
  }
}

TEST_CASE("targets bring the outputs for a layer's inputs as near to the original's as changes of weights can") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 70, rows = 19, count = 501;
  const auto originals = tests::correlated_inputs(random, count, cols);
  std::vector<float> inputs = originals, ahead(static_cast<size_t>(count * rows));
  std::normal_distribution<float> normal;
  for (float& x : inputs) x += 0.3f * normal(random);
  for (int64_t t = 0; t < count; ++t) // in part what inputs can tell
    for (int64_t r = 0; r < rows; ++r) ahead[t * rows + r] = 0.01f * inputs[t * cols + r] + 0.1f * normal(random);
  const auto weights = tests::random_weights(random, rows * cols);
  for (const bool joined : {false, true}) {
    CAPTURE(joined);
    quant::CpuHessian hessian(cols);
    hessian.add(inputs);
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 203}, {203, count - 203}}) {
      const auto part = [&](const std::vector<float>& all, int64_t width) {
        return std::span(all).subspan(first * width, n * width);
      };
      hessian.add_originals(part(inputs, cols), part(originals, cols),
                            joined ? part(ahead, rows) : std::span<const float>());
    }
    const std::vector<float> targets = hessian.targets(weights.data(), rows);
    const double damping = hessian.factor(0.01).damping;
    // Where the sum of squares with the damping's is least, its slope is 0.
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> slope(static_cast<size_t>(cols)), size(slope.size());
      double before = 0, after = 0;
      for (int64_t t = 0; t < count; ++t) {
        double wanted = joined ? ahead[t * rows + r] : 0, plain = 0, got = 0;
        for (int64_t i = 0; i < cols; ++i) {
          wanted += static_cast<double>(weights[r * cols + i]) * originals[t * cols + i];
          plain += static_cast<double>(weights[r * cols + i]) * inputs[t * cols + i];
          got += static_cast<double>(targets[r * cols + i]) * inputs[t * cols + i];
        }
        before += (wanted - plain) * (wanted - plain);
        after += (wanted - got) * (wanted - got);
        for (int64_t i = 0; i < cols; ++i) {
          slope[i] += (wanted - got) * inputs[t * cols + i];
          size[i] += std::abs((wanted - plain) * inputs[t * cols + i]);
        }
      }
      CHECK(after < before);
      for (int64_t i = 0; i < cols; ++i) {
        const double change = targets[r * cols + i] - weights[r * cols + i];
        CHECK(std::abs(slope[i] - damping * change) < 1e-2 * (size[i] + damping * std::abs(change)));
      }
    }
  }
}
