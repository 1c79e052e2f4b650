// Where a packed block keeps the code of each weight, so that codes can be changed while scales stay.
//
// The map is found without knowledge of the format: flip each bit of a block and see which code Format::unpack changes.
// A format whose bits each belong to the code of one weight, or to none, has a map; codebooks, where a few bits choose
// eight weights at once, and base-3 digits have none.
#pragma once

#include "quant/registry.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::quant {

struct Scales { // of 16 weights: w = scale * code + offset
  float scale, offset;
};

class CodeMap {
 public:
  // nullptr: the format has none.
  static const CodeMap* of(Type type);

  int64_t block_weights() const { return block_weights_; }
  // Scales of a block, block_weights / 16 of them.
  void scales(const std::byte* block, Scales* out) const;
  // The pattern of the level nearest to `level` (a weight less its offset, over its scale).
  int nearest(float level) const;
  int patterns() const { return static_cast<int>(levels_.size()); }
  float level(int pattern) const { return levels_[static_cast<size_t>(pattern)]; }
  void set(std::byte* block, int64_t weight, int pattern) const;

  // The same as tables, for a GPU.
  struct Bit {
    uint16_t byte;
    uint8_t mask;
  };
  int bits() const { return bits_; }                              // per weight
  std::span<const Bit> places() const { return places_; }         // [weight][bits()], the pattern's lowest bit first
  std::span<const int> sorted() const { return sorted_; }         // patterns by ascending level
  std::span<const float> midpoints() const { return midpoints_; } // between neighbours of sorted()

 private:
  using Unpack = void (*)(const std::byte* block, int8_t* codes, Scales* scales);
  static bool find(Type type, Unpack unpack, CodeMap& map);

  Unpack unpack_;
  int64_t block_weights_;
  int bits_ = 0;
  std::vector<Bit> places_;
  std::vector<int8_t> levels_; // code of each pattern of bits, the same for all weights
  std::vector<int> sorted_;
  std::vector<float> midpoints_;
};

} // namespace ridge::quant
