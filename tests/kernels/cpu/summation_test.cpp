// Products are those of kernels.h's summation order bit for bit, so that instruction sets and architectures agree.
#include "kernels/cpu/each_target.h"
#include "kernels/cpu/formats/kernels.h"
#include "quant/all_formats.h"
#include "support/numerics.h"
#include "support/random_program.h"

#include <array>
#include <cmath>
#include <memory>
#include <string>

using namespace ridge;
using kernels::cpu::CodePanel;
using kernels::cpu::QuantizedRow;
using kernels::cpu::TokenTile;
using tests::RandomProgram;

namespace {

constexpr int64_t kTokens = 5, kRows = 35;

// Highway's targets without vectors do not fuse.
float multiply_add(float a, float b, float c, bool fused) { return fused ? std::fma(a, b, c) : a * b + c; }

template <typename Format>
float expected_product(const std::byte* row, int64_t cols, const QuantizedRow& x, bool fused) {
  constexpr int64_t kGroup = Format::kScaleWeights, kParts = kernels::cpu::kChunk / kGroup;
  std::array<float, kParts> sums = {};
  for (int64_t first = 0; first < cols; first += kGroup) {
    quant::Group group;
    const int64_t in_block = first % Format::kWeights;
    (reinterpret_cast<const Format*>(row) + first / Format::kWeights)
        ->unpack(static_cast<int>(in_block / quant::kGroupWeights), group);
    const int64_t half = kGroup == 16 ? in_block % quant::kGroupWeights / 16 : 0;
    int32_t dot = 0, sum = 0;
    for (int64_t i = 0; i < kGroup; ++i) {
      const int32_t value = x.wide ? 256 * x.code()[first + i] + x.low()[first + i] : x.code()[first + i];
      dot += group.code[16 * half + i] * value;
      sum += value;
    }
    float& part = sums[first / kGroup % kParts];
    const float scale = x.scale()[first / 16];
    part = multiply_add(static_cast<float>(dot) * group.scale[half], scale, part, fused);
    if (Format::kHasOffset) part = multiply_add(group.offset[half], scale * static_cast<float>(sum), part, fused);
  }
  for (int64_t step = kParts / 2; step > 0; step /= 2)
    for (int64_t i = 0; i < step; ++i) sums[i] += sums[i + step];
  return sums[0];
}

// Every low half −128, the least that it can be.
void set_least_low(const QuantizedRow& x) {
  std::fill_n(x.low(), x.cols, int8_t{-128});
  for (int64_t first = 0; first < x.cols; first += 32) {
    int32_t sums[2] = {};
    for (int64_t i = 0; i < 32; ++i) sums[i / 16] += 256 * x.code()[first + i] - 128;
    for (int64_t h = 0; h < 2; ++h) {
      const int64_t at = first / 16 + h;
      x.bias16()[at] = -128 * sums[h];
      x.bias32()[at] = -128 * (sums[0] + sums[1]);
      x.sum16()[at] = x.scale()[at] * static_cast<float>(sums[h]);
      x.sum32()[at] = x.scale()[at] * static_cast<float>(sums[0] + sums[1]);
    }
  }
}

template <typename Format>
void check_products(quant::Type type, uint64_t seed) {
  RandomProgram model(seed);
  constexpr int64_t kCols = 3 * 256 + (Format::kWeights < 256 ? 128 : 0);
  const core::WeightId id = model.weight(type, kCols, kRows);
  const core::Weight& weight = model.program.weights[id];
  if constexpr (std::is_same_v<Format, quant::Q8_0> || std::is_same_v<Format, quant::AFFINE8>) // can store −128
    for (int64_t i = 0; i < kCols / Format::kWeights; ++i)
      std::fill_n(reinterpret_cast<Format*>(model.storage.back().data())[i].qs, Format::kWeights, int8_t{-128});
  const int64_t padded = kernels::cpu::round_up(kCols, kernels::cpu::kChunk);
  for (const bool wide : {false, true}) {
    CAPTURE(wide);
    std::vector<std::vector<std::byte>> storage;
    std::vector<QuantizedRow> x;
    std::normal_distribution<float> normal;
    for (int64_t t = 0; t < kTokens; ++t) {
      storage.emplace_back(QuantizedRow::bytes(padded, wide));
      x.push_back({storage.back().data(), padded, wide});
      std::vector<float> values(kCols);
      for (float& value : values) value = normal(model.random);
      kernels::cpu::vector_kernels().quantize(values.data(), kCols, x.back());
      if (wide && t == 0) set_least_low(x.back());
    }
    tests::for_each_target([&] {
      const bool fused = (hwy::SupportedTargets() & (HWY_SCALAR | HWY_EMU128)) == 0;
      const kernels::cpu::FormatKernels kernels = kernels::cpu::format_kernels(static_cast<uint32_t>(type));
      std::vector<float> expected, dots(kTokens * kRows), panel_products(kTokens * kRows);
      for (const QuantizedRow& token : x)
        for (int64_t r = 0; r < kRows; ++r)
          expected.push_back(expected_product<Format>(weight.data + r * weight.row_bytes, kCols, token, fused));

      float* out[kTokens];
      for (int64_t t = 0; t < kTokens; ++t) out[t] = dots.data() + t * kRows;
      kernels.dot_codes(weight.data, weight.row_bytes, kRows, kCols, x.data(), 1, out);
      kernels.dot_codes(weight.data, weight.row_bytes, kRows, kCols, x.data() + 1, kTokens - 1, out + 1);
      CHECK(dots == expected);

      const kernels::cpu::MatmulKernels& matmul = kernels::cpu::matmul_kernels();
      const int64_t parts = kernels::cpu::kChunk / Format::kScaleWeights;
      const auto panel = std::make_unique<CodePanel>();
      std::vector<float> sums(TokenTile::kTokens * kernels::cpu::kPartialSums * kernels::cpu::kPanelRows);
      std::vector<float> tile_products(kTokens * kRows);
      std::vector<std::byte> tile(TokenTile::bytes(padded, wide), std::byte{0x55});
      const TokenTile arranged{tile.data(), padded, wide};
      const bool tiled = matmul.tiles && Format::kScaleWeights == 32;
      if (tiled) matmul.arrange(x.data(), kTokens, arranged);
      for (int64_t first = 0; first < kRows; first += kernels::cpu::kPanelRows) {
        const int64_t count = std::min(kernels::cpu::kPanelRows, kRows - first);
        kernels.pack_codes(weight.data + first * weight.row_bytes, weight.row_bytes, count, kCols, 0, *panel);
        matmul.codes(*panel, kernels.scale16, kernels.has_offset, 0, kCols, x.data(), kTokens, sums.data());
        for (int64_t t = 0; t < kTokens; ++t) out[t] = panel_products.data() + t * kRows + first;
        matmul.reduce(sums.data(), parts, kTokens, kTokens, count, nullptr, out);
        if (!tiled) continue;
        matmul.tiles(*panel, kernels.has_offset, 0, kCols, arranged, 1, sums.data());
        for (int64_t t = 0; t < kTokens; ++t) out[t] = tile_products.data() + t * kRows + first;
        matmul.reduce(sums.data(), parts, TokenTile::kTokens, kTokens, count, nullptr, out);
      }
      CHECK(panel_products == expected);
      if (tiled) CHECK(tile_products == expected);
    });
  }
}

template <typename Format>
void check_format(const std::string& format, quant::Type type, uint64_t seed) {
  CAPTURE(format);
  if constexpr (quant::PackedFormat<Format>) check_products<Format>(type, seed);
}

// One group of 32 columns from `first`, as kernels.h defines it.
void check_group(const std::vector<float>& x, const QuantizedRow& row, int64_t first) {
  const auto value = [&](int64_t i) { return first + i < std::ssize(x) ? x[first + i] : 0.0f; };
  float largest = 0;
  for (int64_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(value(i)));
  float scale = largest / 127;
  const float inverse = scale > 0 ? 1 / scale : 0;
  int32_t sums[2] = {};
  for (int64_t i = 0; i < 32; ++i) {
    const int32_t code = static_cast<int32_t>(std::nearbyint(std::clamp(value(i) * inverse, -127.0f, 127.0f)));
    CHECK(row.code()[first + i] == code);
    sums[i / 16] += row.wide ? 256 * code : code;
    if (!row.wide) continue;
    const float step = scale / 256, rest = (value(i) - scale * static_cast<float>(code)) * (step > 0 ? 1 / step : 0);
    const int32_t low = static_cast<int32_t>(std::nearbyint(std::clamp(rest, -128.0f, 127.0f)));
    CHECK(row.low()[first + i] == low);
    sums[i / 16] += low;
  }
  if (row.wide) scale /= 256;
  for (int64_t h = 0; h < 2; ++h) {
    const int64_t at = first / 16 + h;
    CHECK(row.scale()[at] == scale);
    CHECK(row.sum16()[at] == scale * static_cast<float>(sums[h]));
    CHECK(row.bias16()[at] == -128 * sums[h]);
    CHECK(row.sum32()[at] == scale * static_cast<float>(sums[0] + sums[1]));
    CHECK(row.bias32()[at] == -128 * (sums[0] + sums[1]));
  }
}

} // namespace

TEST_CASE("activations have the codes, scales and sums of their definition, on every instruction set") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  std::normal_distribution<float> normal;
  for (const bool wide : {false, true})
    for (const int64_t cols : {32, 224, 256, 544}) {
      CAPTURE(wide);
      CAPTURE(cols);
      std::vector<float> x(cols);
      for (int64_t i = 0; i < cols; ++i)
        x[i] =
            model.integer(0, 9) == 0 || i / 32 % 5 == 3 ? 0 : normal(model.random) * std::ldexp(1.0f, i / 32 * 4 - 30);
      tests::for_each_target([&] {
        const int64_t padded = kernels::cpu::round_up(cols, kernels::cpu::kChunk);
        std::vector<std::byte> storage(QuantizedRow::bytes(padded, wide), std::byte{0x55});
        const QuantizedRow row{storage.data(), padded, wide};
        kernels::cpu::vector_kernels().quantize(x.data(), cols, row);
        for (int64_t first = 0; first < padded; first += 32) check_group(x, row, first);
      });
    }
}

TEST_CASE("every format's products have the bits of the documented order, on every instruction set") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
#define RIDGE_FORMAT(name, id, weights, bytes) check_format<quant::name>(#name, quant::Type::name, seed);
#include "quant/formats.def"
#undef RIDGE_FORMAT
}
