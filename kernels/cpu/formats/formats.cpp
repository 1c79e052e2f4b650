#include "core/error.h"
#include "kernels/cpu/formats/kernels.h"

namespace ridge::kernels::cpu {

FormatKernels format_kernels(uint32_t type) {
  FormatKernels kernels;
  if (!format_kernels_part0(type, kernels) && !format_kernels_part1(type, kernels) &&
      !format_kernels_part2(type, kernels) && !format_kernels_part3(type, kernels))
    throw_error("unknown weight type {}; requantize the model to a supported type", type);
  return kernels;
}

} // namespace ridge::kernels::cpu
