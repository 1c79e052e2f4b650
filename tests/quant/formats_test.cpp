// Layouts: hand-built blocks with known fields.
#include "quant/all_formats.h"
#include "support/numerics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

using namespace ridge;
using namespace ridge::quant;

namespace {

Half half(float value) { return {core::f16_from_f32(value)}; }

template <typename Format>
std::vector<float> weights(const Format& block) {
  std::vector<float> out(Format::kWeights);
  decode(block, out.data());
  return out;
}

template <typename Point, int kSize>
void check_codebook(const Codebook<Point, kSize>& book, std::initializer_list<int> levels) {
  const std::vector<int> level(levels);
  int64_t previous = -1;
  for (Point point : book.point) {
    int64_t number = 0;
    for (int i = sizeof(Point) - 1; i >= 0; --i) {
      const auto code = static_cast<int8_t>(point >> (8 * i));
      const auto digit = std::find(level.begin(), level.end(), code);
      REQUIRE(digit != level.end());
      number = number * static_cast<int64_t>(level.size()) + (digit - level.begin());
    }
    REQUIRE(number > previous);
    previous = number;
  }
}

} // namespace

TEST_CASE("Q4_0, Q4_1: nibble i is weight i, the high nibbles come after the low ones") {
  Q4_0 q4_0{half(0.5f), {}};
  Q4_1 q4_1{half(0.5f), half(-3.0f), {}};
  for (int i = 0; i < 16; ++i) q4_0.qs[i] = q4_1.qs[i] = static_cast<uint8_t>(i | (15 - i) << 4);
  const auto symmetric = weights(q4_0), affine = weights(q4_1);
  for (int i = 0; i < 16; ++i) {
    CHECK(symmetric[i] == 0.5f * static_cast<float>(i - 8));
    CHECK(symmetric[i + 16] == 0.5f * static_cast<float>(7 - i));
    CHECK(affine[i] == 0.5f * static_cast<float>(i) - 3.0f);
    CHECK(affine[i + 16] == 0.5f * static_cast<float>(15 - i) - 3.0f);
  }
}

TEST_CASE("Q5_0, Q5_1: bit i of qh adds 16 to weight i") {
  for (int i = 0; i < 32; ++i) {
    CAPTURE(i);
    Q5_0 q5_0{half(1.0f), {}, {}};
    Q5_1 q5_1{half(1.0f), half(0.0f), {}, {}};
    q5_0.qh[i / 8] = q5_1.qh[i / 8] = static_cast<uint8_t>(1 << i % 8);
    const auto symmetric = weights(q5_0), affine = weights(q5_1);
    for (int j = 0; j < 32; ++j) {
      CHECK(symmetric[j] == (i == j ? 0.0f : -16.0f));
      CHECK(affine[j] == (i == j ? 16.0f : 0.0f));
    }
  }
}

TEST_CASE("Q8_0: d times signed bytes") {
  Q8_0 block{half(0.25f), {}};
  for (int i = 0; i < 32; ++i) block.qs[i] = static_cast<int8_t>(8 * i - 128);
  const auto decoded = weights(block);
  for (int i = 0; i < 32; ++i) CHECK(decoded[i] == 0.25f * static_cast<float>(8 * i - 128));
}

TEST_CASE("Q4_K, Q5_K: eight 6-bit scales and mins come back from their 12 bytes") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int scale[8], min[8];
  uint8_t packed[12] = {};
  for (int g = 0; g < 8; ++g) scale[g] = static_cast<int>(random() % 64), min[g] = static_cast<int>(random() % 64);
  for (int g = 0; g < 4; ++g) {
    packed[g] = static_cast<uint8_t>(scale[g] | (scale[g + 4] >> 4) << 6);
    packed[g + 4] = static_cast<uint8_t>(min[g] | (min[g + 4] >> 4) << 6);
    packed[g + 8] = static_cast<uint8_t>((scale[g + 4] & 15) | (min[g + 4] & 15) << 4);
  }
  Q4_K q4_k{half(1.0f), half(0.5f), {}, {}};
  Q5_K q5_k{half(1.0f), half(0.5f), {}, {}, {}};
  std::memcpy(q4_k.scales, packed, 12);
  std::memcpy(q5_k.scales, packed, 12);
  std::memset(q4_k.qs, 0x22, sizeof q4_k.qs);
  std::memset(q5_k.qs, 0x22, sizeof q5_k.qs);
  std::memset(q5_k.qh, 0xf0, sizeof q5_k.qh);
  const auto four = weights(q4_k), five = weights(q5_k);
  for (int i = 0; i < 256; ++i) {
    const int g = i / 32;
    const float offset = -0.5f * static_cast<float>(min[g]);
    CHECK(four[i] == static_cast<float>(scale[g] * 2) + offset);
    CHECK(five[i] == static_cast<float>(scale[g] * (g < 4 ? 2 : 18)) + offset);
  }
}

TEST_CASE("Q2_K: two-bit codes in four planes, a nibble scale and a nibble min every 16") {
  Q2_K block{{}, {}, half(1.0f), half(0.5f)};
  for (int s = 0; s < 16; ++s) block.scales[s] = static_cast<uint8_t>(s | (15 - s) << 4);
  std::memset(block.qs, 0b11100100, sizeof block.qs);
  const auto decoded = weights(block);
  for (int i = 0; i < 256; ++i) {
    const int s = i / 16, code = i / 32 % 4;
    CHECK(decoded[i] == static_cast<float>(s * code) - 0.5f * static_cast<float>(15 - s));
  }
}

TEST_CASE("Q3_K: a clear mask bit subtracts 4, and sixteen 6-bit scales come back from their 12 bytes") {
  Q3_K block{{}, {}, {}, half(1.0f)};
  std::memset(block.hmask, 0x0f, sizeof block.hmask);
  std::memset(block.qs, 0b11100100, sizeof block.qs);
  const auto scale = [](int s) { return (s * 11 + 5) % 64; };
  for (int s = 0; s < 16; ++s) {
    block.scales[s % 8] = static_cast<uint8_t>(block.scales[s % 8] | (scale(s) & 15) << (4 * (s / 8)));
    block.scales[8 + s % 4] = static_cast<uint8_t>(block.scales[8 + s % 4] | (scale(s) >> 4) << (2 * (s / 4)));
  }
  const auto decoded = weights(block);
  for (int i = 0; i < 256; ++i) {
    const int code = i / 32 % 4 - (i < 128 ? 0 : 4);
    CHECK(decoded[i] == static_cast<float>((scale(i / 16) - 32) * code));
  }
}

TEST_CASE("Q6_K: four low bits and two high bits make a code around 32, every 16 with a signed scale") {
  Q6_K block{{}, {}, {}, half(1.0f)};
  const auto code = [](int i) { return (i * 29 + 3) % 64; };
  for (int s = 0; s < 16; ++s) block.scales[s] = static_cast<int8_t>(7 * s - 60);
  for (int i = 0; i < 256; ++i) {
    const int upper = i / 128, within = i % 128;
    uint8_t& low = block.ql[64 * upper + within % 64];
    uint8_t& high = block.qh[32 * upper + within % 32];
    low = static_cast<uint8_t>(low | (code(i) & 15) << (4 * (within / 64)));
    high = static_cast<uint8_t>(high | (code(i) >> 4) << (2 * (within / 32)));
  }
  const auto decoded = weights(block);
  for (int i = 0; i < 256; ++i) CHECK(decoded[i] == static_cast<float>((7 * (i / 16) - 60) * (code(i) - 32)));
}

TEST_CASE("TQ1_0: a byte holds five base-3 digits as a fraction of 3^5, for all 243 numbers") {
  for (int number = 0; number < 243; ++number) {
    CAPTURE(number);
    const auto byte = static_cast<uint8_t>((number * 256 + 242) / 243);
    TQ1_0 block{{}, {}, half(1.0f)};
    std::memset(block.qs, byte, sizeof block.qs);
    std::memset(block.qh, byte, sizeof block.qh);
    const auto decoded = weights(block);
    for (int i = 0; i < 256; ++i) {
      const int row = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4; // row 0 is the leading digit
      int digit = number;
      for (int n = row; n < 4; ++n) digit /= 3;
      CHECK(decoded[i] == static_cast<float>(digit % 3 - 1));
    }
  }
}

TEST_CASE("TQ2_0, Q2_0: the same codes, by planes of 32 and in sequence") {
  TQ2_0 planes{{}, half(2.0f)};
  Q2_0 sequence{half(2.0f), {}};
  std::memset(planes.qs, 0b11100100, sizeof planes.qs);
  std::memset(sequence.qs, 0b11100100, sizeof sequence.qs);
  const auto by_plane = weights(planes), in_sequence = weights(sequence);
  for (int i = 0; i < 256; ++i) CHECK(by_plane[i] == 2.0f * static_cast<float>(i / 32 % 4 - 1));
  for (int i = 0; i < 64; ++i) CHECK(in_sequence[i] == 2.0f * static_cast<float>(i % 4 - 1));
}

TEST_CASE("Q1_0: bit i is the sign of weight i") {
  for (int i = 0; i < 128; ++i) {
    Q1_0 block{half(1.5f), {}};
    block.qs[i / 8] = static_cast<uint8_t>(1 << i % 8);
    const auto decoded = weights(block);
    for (int j = 0; j < 128; ++j) CHECK(decoded[j] == (i == j ? 1.5f : -1.5f));
  }
}

TEST_CASE("MXFP4: E2M1 values times a power of two, subnormal and huge ones included") {
  const float value[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  MXFP4 block{};
  for (int i = 0; i < 16; ++i) block.qs[i] = static_cast<uint8_t>(i * 0x11);
  for (int e : {0, 1, 2, 126, 127, 128, 250}) {
    CAPTURE(e);
    block.e = static_cast<uint8_t>(e);
    const auto decoded = weights(block);
    for (int i = 0; i < 32; ++i) {
      const float magnitude = std::ldexp(value[i % 8], e - 127);
      CHECK(decoded[i] == (i % 16 < 8 ? magnitude : -magnitude));
    }
  }
  block.e = 255; // NaN in OCP; 2^128 in GGUF
  CHECK(weights(block)[1] == 0x1p127f);
}

TEST_CASE("NVFP4: every scale byte is an unsigned E4M3 float, its top bit ignored and 0x7f being zero") {
  for (int bits = 0; bits < 256; ++bits) {
    CAPTURE(bits);
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float scale = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    if (bits == 0x7f) scale = 0.0f;
    NVFP4 block{};
    block.d[1] = static_cast<uint8_t>(bits);
    std::memset(block.qs, 0xa7, sizeof block.qs);
    const auto decoded = weights(block);
    for (int i = 16; i < 32; ++i) CHECK(decoded[i] == (i < 24 ? 6.0f * scale : -scale));
    CHECK(decoded[15] == 0.0f);
    CHECK(decoded[32] == 0.0f);
  }
}

TEST_CASE("IQ4_XS: 6-bit scales around 32 times IQ4_NL's levels") {
  IQ4_NL plain{half(1.0f), {}};
  for (int i = 0; i < 16; ++i) plain.qs[i] = static_cast<uint8_t>(i | (15 - i) << 4);
  const auto level = weights(plain);
  for (int i = 0; i < 32; ++i) CHECK(level[i] == static_cast<float>(kIq4Levels[i < 16 ? i : 31 - i]));
  IQ4_XS scaled{half(1.0f), 0, {}, {}};
  const auto scale = [](int g) { return (g * 23 + 1) % 64; };
  for (int g = 0; g < 8; ++g) {
    scaled.scales_l[g / 2] = static_cast<uint8_t>(scaled.scales_l[g / 2] | (scale(g) & 15) << (4 * (g % 2)));
    scaled.scales_h = static_cast<uint16_t>(scaled.scales_h | (scale(g) >> 4) << (2 * g));
    std::memcpy(scaled.qs + 16 * g, plain.qs, 16);
  }
  const auto decoded = weights(scaled);
  for (int i = 0; i < 256; ++i) CHECK(decoded[i] == static_cast<float>(scale(i / 32) - 32) * level[i % 32]);
}

TEST_CASE("codebooks list distinct lattice points in ascending order") {
  check_codebook(kIq1Codebook, {-8, 0, 8});
  check_codebook(kIq2XxsCodebook, {8, 25, 43});
  check_codebook(kIq2XsCodebook, {8, 25, 43});
  check_codebook(kIq2SCodebook, {8, 25, 43});
  check_codebook(kIq3XxsCodebook, {4, 12, 20, 28, 36, 44, 52, 62});
  check_codebook(kIq3SCodebook, {1, 3, 5, 7, 9, 11, 13, 15});
}

TEST_CASE("bit i of a sign byte negates byte i, and seven signs become eight with an even number of minuses") {
  for (int bits = 0; bits < 256; ++bits) {
    int8_t code[8];
    store8(code, with_signs(0x7f3e2b1908040201, static_cast<uint8_t>(bits)));
    const int expected[8] = {0x01, 0x02, 0x04, 0x08, 0x19, 0x2b, 0x3e, 0x7f};
    for (int i = 0; i < 8; ++i) CHECK(code[i] == (bits >> i & 1 ? -expected[i] : expected[i]));
    const uint8_t signs = eight_signs(static_cast<uint32_t>(bits));
    CHECK((signs & 127) == (bits & 127));
    CHECK(std::popcount(signs) % 2 == 0);
  }
}

TEST_CASE("IQ2, IQ3: index 0 is the all-lowest point, its scale counted in halves") {
  IQ2_XXS iq2_xxs{half(1.0f), {}};
  for (int g = 0; g < 8; ++g) iq2_xxs.qs[4 * g + 3] = static_cast<uint16_t>(g << 12);
  IQ2_XS iq2_xs{half(1.0f), {}, {}};
  IQ2_S iq2_s{half(1.0f), {}, {}, {}, {}};
  for (int g = 0; g < 8; ++g) iq2_xs.scales[g] = iq2_s.scales[g] = static_cast<uint8_t>(2 * g | (2 * g + 1) << 4);
  IQ3_XXS iq3_xxs{half(1.0f), {}, {}};
  for (int g = 0; g < 8; ++g) iq3_xxs.signs_scale[2 * g + 1] = static_cast<uint16_t>(g << 12);
  IQ3_S iq3_s{half(1.0f), {}, {}, {}, {}};
  for (int j = 0; j < 4; ++j) iq3_s.scales[j] = static_cast<uint8_t>(2 * j | (2 * j + 1) << 4);
  const auto a = weights(iq2_xxs), b = weights(iq2_xs), c = weights(iq2_s), d = weights(iq3_xxs), e = weights(iq3_s);
  for (int i = 0; i < 256; ++i) {
    const auto by_32 = static_cast<float>(i / 32), by_16 = static_cast<float>(i / 16);
    CHECK(a[i] == (0.5f + by_32) * 0.25f * 8.0f);
    CHECK(b[i] == (0.5f + by_16) * 0.25f * 8.0f);
    CHECK(c[i] == (0.5f + by_16) * 0.25f * 8.0f);
    CHECK(d[i] == (0.5f + by_32) * 0.5f * 4.0f);
    CHECK(e[i] == 1.0f + 2.0f * by_32);
  }
}

TEST_CASE("IQ1_S, IQ1_M: ternary digits shifted by an eighth, either way") {
  IQ1_S iq1_s{half(1.0f), {}, {}};
  IQ1_M iq1_m{};
  for (int g = 0; g < 8; ++g) iq1_s.qh[g] = static_cast<uint16_t>(g << 12 | (g % 2) << 15);
  for (int i = 0; i < 16; ++i) iq1_m.qh[i] = 0x80;
  for (int j = 0; j < 4; ++j) { // d = 0x3c00 = 1, lowest nibble first; scales 0 1 2 3
    iq1_m.scales[j] = static_cast<uint16_t>((0x3c00 >> (4 * j) & 15) << 12 | 0 | 1 << 3 | 2 << 6 | 3 << 9);
  }
  const auto s = weights(iq1_s), m = weights(iq1_m);
  for (int i = 0; i < 256; ++i) {
    CHECK(s[i] == static_cast<float>(2 * (i / 32) + 1) * (i / 32 % 2 ? -1.125f : -0.875f));
    CHECK(m[i] == static_cast<float>(2 * (i / 16 % 4) + 1) * (i / 8 % 2 ? -1.125f : -0.875f));
  }
}
