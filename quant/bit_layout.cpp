#include "quant/bit_layout.h"

#include <algorithm>

namespace ridge::quant {
namespace {

using enum FieldKind;

BitRun none(int) { return {0, 0}; }

// Byte l holds weights l and l + 16.
template <int kByte>
BitRun nibble32(int i) {
  return {8 * (kByte + i % 16) + 4 * (i / 16), 4};
}
template <int kByte>
BitRun bit32(int i) {
  return {8 * kByte + i, 1};
}
template <int kByte>
BitRun byte32(int i) {
  return {8 * (kByte + i), 8};
}

template <int kByte>
BitRun nibble_k(int i) {
  return {8 * (kByte + 32 * (i / 64) + i % 32) + 4 * (i / 32 % 2), 4};
}
template <int kByte> // bit g of byte l is weight 32g + l
BitRun bit_k(int i) {
  return {8 * (kByte + i % 32) + i / 32, 1};
}
template <int kByte>
BitRun pair_k(int i) {
  return {8 * (kByte + 32 * (i / 128) + i % 32) + 2 * (i / 32 % 4), 2};
}
BitRun q6_k_low(int i) { return {8 * (64 * (i / 128) + i % 64) + 4 * (i / 64 % 2), 4}; }

constexpr BitField kQ4_0[] = {{"d", "scale", factor, 0, 2}, {"qs", "codes", codes, 2, 16}};
constexpr BitField kQ4_1[] = {{"d", "scale", factor, 0, 2}, {"m", "min", factor, 2, 2}, {"qs", "codes", codes, 4, 16}};
constexpr BitField kQ5_0[] = {
    {"d", "scale", factor, 0, 2}, {"qh", "fifth bits", high_bits, 2, 4}, {"qs", "low four bits", codes, 6, 16}};
constexpr BitField kQ5_1[] = {{"d", "scale", factor, 0, 2},
                              {"m", "min", factor, 2, 2},
                              {"qh", "fifth bits", high_bits, 4, 4},
                              {"qs", "low four bits", codes, 8, 16}};
constexpr BitField kQ8_0[] = {{"d", "scale", factor, 0, 2}, {"qs", "codes", codes, 2, 32}};
constexpr BitField kQ2_K[] = {{"scales", "16 scales and mins", scales, 0, 16},
                              {"qs", "codes", codes, 16, 64},
                              {"d", "scale of scales", factor, 80, 2},
                              {"dmin", "scale of mins", factor, 82, 2}};
constexpr BitField kQ3_K[] = {{"hmask", "third bits", high_bits, 0, 32},
                              {"qs", "low two bits", codes, 32, 64},
                              {"scales", "16 scales of 6 bits", scales, 96, 12},
                              {"d", "scale of scales", factor, 108, 2}};
constexpr BitField kQ4_K[] = {{"d", "scale of scales", factor, 0, 2},
                              {"dmin", "scale of mins", factor, 2, 2},
                              {"scales", "8 scales and mins of 6 bits", scales, 4, 12},
                              {"qs", "codes", codes, 16, 128}};
constexpr BitField kQ5_K[] = {{"d", "scale of scales", factor, 0, 2},
                              {"dmin", "scale of mins", factor, 2, 2},
                              {"scales", "8 scales and mins of 6 bits", scales, 4, 12},
                              {"qh", "fifth bits", high_bits, 16, 32},
                              {"qs", "low four bits", codes, 48, 128}};
constexpr BitField kQ6_K[] = {{"ql", "low four bits", codes, 0, 128},
                              {"qh", "upper two bits", high_bits, 128, 64},
                              {"scales", "16 scales of 8 bits", scales, 192, 16},
                              {"d", "scale of scales", factor, 208, 2}};
constexpr BitField kIQ4_NL[] = {{"d", "scale", factor, 0, 2}, {"qs", "indices into 16 levels", codes, 2, 16}};
constexpr BitField kMXFP4[] = {{"e", "scale, a power of two", scales, 0, 1}, {"qs", "4-bit floats", codes, 1, 16}};

constexpr BitLayout kLayouts[] = {
    {Type::Q4_0, kQ4_0, nibble32<2>, none},       {Type::Q4_1, kQ4_1, nibble32<4>, none},
    {Type::Q5_0, kQ5_0, nibble32<6>, bit32<2>},   {Type::Q5_1, kQ5_1, nibble32<8>, bit32<4>},
    {Type::Q8_0, kQ8_0, byte32<2>, none},         {Type::Q2_K, kQ2_K, pair_k<16>, none},
    {Type::Q3_K, kQ3_K, pair_k<32>, bit_k<0>},    {Type::Q4_K, kQ4_K, nibble_k<16>, none},
    {Type::Q5_K, kQ5_K, nibble_k<48>, bit_k<16>}, {Type::Q6_K, kQ6_K, q6_k_low, pair_k<128>},
    {Type::IQ4_NL, kIQ4_NL, nibble32<2>, none},   {Type::MXFP4, kMXFP4, nibble32<1>, none},
};

} // namespace

std::span<const BitLayout> bit_layouts() { return kLayouts; }

const BitLayout* find_bit_layout(Type type) {
  const auto found = std::ranges::find(kLayouts, type, &BitLayout::type);
  return found == std::end(kLayouts) ? nullptr : found;
}

std::vector<int> BitLayout::bits_of(int weight) const {
  std::vector<int> bits;
  for (const BitRun run : {low(weight), high(weight)})
    for (int i = 0; i < run.count; ++i) bits.push_back(run.bit + i);
  return bits;
}

} // namespace ridge::quant
