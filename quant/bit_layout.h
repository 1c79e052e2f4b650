// Meaning of each bit of a packed block, for display. tests/quant/bit_layout_test.cpp checks it against decoding.
#pragma once

#include "quant/registry.h"

#include <span>
#include <vector>

namespace ridge::quant {

enum class FieldKind : uint8_t { factor, scales, high_bits, codes };

struct BitField {
  const char* name;
  const char* meaning;
  FieldKind kind;
  int first_byte, bytes;
};

// bit: byte * 8 + place in the block.
struct BitRun {
  int bit, count;
};

struct BitLayout {
  Type type;
  std::span<const BitField> fields;
  // count 0 if none.
  BitRun (*low)(int i);
  BitRun (*high)(int i);

  std::vector<int> bits_of(int weight) const; // lowest first
};

std::span<const BitLayout> bit_layouts();
const BitLayout* find_bit_layout(Type type); // nullptr: no table

} // namespace ridge::quant
