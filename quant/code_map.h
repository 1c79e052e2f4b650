// Where a packed block stores each weight's code, found by flipping bits and comparing Format::unpack.
//
// Each bit must affect at most one weight's code: codebooks and base-3 digits have no map.
#pragma once

#include "quant/registry.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::quant {

struct Scales { // per 16 weights
  float scale, offset;
};

class CodeMap {
 public:
  // nullptr: no map.
  static const CodeMap* of(Type type);

  int64_t block_weights() const { return block_weights_; }
  // Writes block_weights / 16 scales.
  void scales(const std::byte* block, Scales* out) const;
  // Bit pattern nearest to `level` = (weight - offset) / scale.
  int nearest(float level) const;
  int patterns() const { return static_cast<int>(levels_.size()); }
  float level(int pattern) const { return levels_[static_cast<size_t>(pattern)]; }
  void set(std::byte* block, int64_t weight, int pattern) const;

  struct Bit {
    uint16_t byte;
    uint8_t mask;
  };
  int bits() const { return bits_; }                              // per weight
  std::span<const Bit> places() const { return places_; }         // [weight][bits()], lowest bit first
  std::span<const int> sorted() const { return sorted_; }         // by ascending level
  std::span<const float> midpoints() const { return midpoints_; } // between neighbours of sorted()

 private:
  using Unpack = void (*)(const std::byte* block, int8_t* codes, Scales* scales);
  static bool find(Type type, Unpack unpack, CodeMap& map);

  Unpack unpack_;
  int64_t block_weights_;
  int bits_ = 0;
  std::vector<Bit> places_;
  std::vector<int8_t> levels_;
  std::vector<int> sorted_;
  std::vector<float> midpoints_;
};

} // namespace ridge::quant
