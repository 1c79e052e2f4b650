// How the Parts of a block decode: levels, scales, and which factors can change.
#pragma once

#include "quant/code_map.h"
#include "quant/encode/tiles.h"
#include "quant/formats/group.h"
#include "quant/registry.h"

#include <algorithm>
#include <vector>

namespace ridge::quant {

class BlockCodes {
 public:
  enum class Factors : uint8_t {
    block,    // d, and m as the offset
    integers, // d and m times an integer per group
    floats,   // a float per group
    points,   // codebooks: see quant/feedback/lattice_feedback.h
  };

  // nullptr: float formats, NF4 and FP4.
  static const BlockCodes* of(Type type);

  Factors factors = Factors::block;
  bool has_offset = false;
  int block = 0, group = 0;   // weights; a group shares a scale
  float lowest = 0, most = 0; // Factors::integers
  std::vector<float> levels;  // ascending; empty: codebooks
  std::vector<float> midpoints;
  bool consecutive = false; // integers without a gap
  SearchBlocks search = nullptr;
  void (*pack)(const Parts&, std::byte*) = nullptr;

  float nearest(float level) const {
    return levels[static_cast<size_t>(std::ranges::lower_bound(midpoints, level) - midpoints.begin())];
  }
  // The scales of group `g`, as the format decodes it. Not for codebooks.
  Scales scales(const Parts& parts, int g) const;
  // Neighbour `n` of the group's factors; false: no such neighbour.
  static constexpr int kNeighbours = 4;
  bool neighbour(Parts& parts, int g, int n) const;

 private:
  Type type_{};
};

} // namespace ridge::quant
