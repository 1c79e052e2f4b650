// The meaning of each bit of a packed block, for displaying blocks. Decoding does not use it.
//
// There is one table per format, after the layout in the format's header. tests/quant/bit_layout_test.cpp checks that
// they agree: fields tile the block, and flipping a bit that a table gives to one weight changes that weight alone.
#pragma once

#include "quant/registry.h"

#include <span>
#include <vector>

namespace ridge::quant {

enum class FieldKind : uint8_t { factor, scales, high_bits, codes }; // factor: binary16

struct BitField {
  const char* name;    // as in the format's struct
  const char* meaning; // in a few words
  FieldKind kind;
  int first_byte, bytes;
};

// A run of a weight's code bits: `count` bits from bit `bit` (byte * 8 + place) of the block on.
struct BitRun {
  int bit, count;
};

struct BitLayout {
  Type type;
  std::span<const BitField> fields; // in the order of their bytes
  // The code bits of weight i: the low ones, then the high ones (count 0 where there are none).
  BitRun (*low)(int i);
  BitRun (*high)(int i);

  std::vector<int> bits_of(int weight) const; // lowest first
};

std::span<const BitLayout> bit_layouts();
const BitLayout* find_bit_layout(Type type); // nullptr: no table for this format

} // namespace ridge::quant
