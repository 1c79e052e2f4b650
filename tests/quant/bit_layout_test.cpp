// Bit layout tables against the decoders.
#include "quant/bit_layout.h"

#include "support/numerics.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <set>
#include <vector>

using namespace ridge::quant;

TEST_CASE("the fields of a bit layout tile the block") {
  for (const BitLayout& layout : bit_layouts()) {
    CAPTURE(format(layout.type).name);
    int end = 0;
    for (const BitField& field : layout.fields) {
      CHECK(field.first_byte == end);
      end += field.bytes;
    }
    CHECK(end == format(layout.type).block_bytes);
  }
}

TEST_CASE("the code bits of the weights fill the code fields, none of them twice") {
  for (const BitLayout& layout : bit_layouts()) {
    CAPTURE(format(layout.type).name);
    std::set<int> expected, found;
    for (const BitField& field : layout.fields)
      if (field.kind == FieldKind::codes || field.kind == FieldKind::high_bits)
        for (int bit = 8 * field.first_byte; bit < 8 * (field.first_byte + field.bytes); ++bit) expected.insert(bit);
    for (int i = 0; i < format(layout.type).block_weights; ++i)
      for (const int bit : layout.bits_of(i)) CHECK(found.insert(bit).second);
    CHECK(found == expected);
  }
}

TEST_CASE("flipping a code bit changes its weight and no other") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const BitLayout& layout : bit_layouts()) {
    const FormatInfo& info = format(layout.type);
    CAPTURE(info.name);
    std::vector<std::byte> block(info.block_bytes);
    for (std::byte& b : block) b = static_cast<std::byte>(random() & 0xff);
    for (const BitField& field : layout.fields) {
      if (field.kind == FieldKind::factor) block[field.first_byte + 1] = std::byte{0x3c};
      if (field.kind == FieldKind::scales)
        for (int i = 0; i < field.bytes; ++i) block[field.first_byte + i] = std::byte{0x55};
    }
    std::vector<float> before(info.block_weights), after(info.block_weights);
    info.decode(block.data(), info.block_weights, before.data());
    for (int i = 0; i < info.block_weights; ++i)
      for (const int bit : layout.bits_of(i)) {
        block[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        info.decode(block.data(), info.block_weights, after.data());
        block[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        for (int j = 0; j < info.block_weights; ++j) {
          // Both zeros of a 4-bit float decode alike.
          const bool same = before[j] == after[j] && !(i == j && before[j] == 0);
          if (same != (i != j)) FAIL_CHECK("bit ", bit, " of weight ", i, ": weight ", j);
        }
      }
  }
}
