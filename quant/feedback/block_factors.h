// The float factors of a packed block: d of all scales and, in some formats, one of all offsets.
#pragma once

#include "quant/registry.h"

#include <cstddef>

namespace ridge::quant {

struct BlockFactors {
  float scale = 1, offset = 1; // offset: of formats without, 1

  // nullptr: formats whose blocks have no such floats.
  struct Access;
  static const Access* of(Type type);
};

struct BlockFactors::Access {
  bool has_offset;
  BlockFactors (*get)(const std::byte* block);
  // Rounded to the format's floats.
  void (*set)(std::byte* block, const BlockFactors& factors);
};

} // namespace ridge::quant
