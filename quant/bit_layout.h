// The meaning of each bit of a packed block, for display only.
//
// tests/quant/bit_layout_test.cpp checks the tables against decoding: fields tile the block, and a flipped bit changes
// only its weight.
#pragma once

#include "quant/registry.h"

#include <span>
#include <vector>

namespace ridge::quant {

enum class FieldKind : uint8_t { factor, scales, high_bits, codes }; // factor: binary16

struct BitField {
  const char* name; // as in the format's struct
  const char* meaning;
  FieldKind kind;
  int first_byte, bytes;
};

// `count` code bits from bit `bit` (byte * 8 + place) of the block.
struct BitRun {
  int bit, count;
};

struct BitLayout {
  Type type;
  std::span<const BitField> fields; // in byte order
  // The low and the high code bits of weight i; count 0 if none.
  BitRun (*low)(int i);
  BitRun (*high)(int i);

  std::vector<int> bits_of(int weight) const; // lowest first
};

std::span<const BitLayout> bit_layouts();
const BitLayout* find_bit_layout(Type type); // nullptr: no table

} // namespace ridge::quant
