#include "kernels/cpu/formats/targets.h"

#define RIDGE_FORMAT_PART 1
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/formats/formats1.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/formats/formats-inl.h"

#if HWY_ONCE
namespace ridge::kernels::cpu {
HWY_EXPORT(find_kernels);
bool format_kernels_part1(uint32_t type, FormatKernels& kernels) {
  return HWY_DYNAMIC_DISPATCH(find_kernels)(type, kernels);
}
} // namespace ridge::kernels::cpu
#endif
