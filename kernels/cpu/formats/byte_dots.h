// Instructions for products of bytes that Highway's targets do not tell apart.
#pragma once

namespace ridge::kernels::cpu {

enum class ByteDots {
  basic,   // the Highway target's own
  dotprod, // arm64, SDOT: four products per lane
  i8mm,    // arm64, also SMMLA: 2 × 8 bytes by 8 × 2
  amx,     // x86, beside AVX3_DL: matrix tiles for prompts
};

ByteDots best_byte_dots(); // of this CPU
bool has_byte_dots(ByteDots dots);
ByteDots byte_dots();              // in use: the best
void use_byte_dots(ByteDots dots); // for tests; one that this CPU has

} // namespace ridge::kernels::cpu
