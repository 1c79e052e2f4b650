// All formats' launchers.
#include "core/error.h"
#include "kernels/cuda/formats/format_kernels.h"

namespace ridge::kernels::cuda {

#define RIDGE_FORMAT(name, id, weights, bytes) extern const FormatKernels kKernels_##name;
#include "quant/formats.def"
#undef RIDGE_FORMAT

const FormatKernels& format_kernels(uint32_t type_id) {
  static const FormatKernels* const kTable[] = {
#define RIDGE_FORMAT(name, id, weights, bytes) &kKernels_##name,
#include "quant/formats.def"
#undef RIDGE_FORMAT
  };
  for (const FormatKernels* kernels : kTable)
    if (static_cast<uint32_t>(kernels->numbers.type) == type_id) return *kernels;
  throw_error("CUDA: no kernels for weight type {}", type_id);
}

} // namespace ridge::kernels::cuda
