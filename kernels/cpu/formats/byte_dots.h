// Instructions for products of bytes that Highway's targets do not tell apart: those of arm64.
#pragma once

namespace ridge::kernels::cpu {

enum class ByteDots {
  basic,   // the Highway target's own
  dotprod, // SDOT: four products per lane
  i8mm,    // also SMMLA: 2 × 8 bytes by 8 × 2
};

ByteDots best_byte_dots();         // of this CPU
ByteDots byte_dots();              // in use: the best
void use_byte_dots(ByteDots dots); // for tests; at most the best

} // namespace ridge::kernels::cpu
