// Instruction sets; include before any Highway header.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#ifdef __aarch64__ // NEON alone, so no dispatch, with which Highway would have the compiler assume AES
#define TOOLCHAIN_MISS_SYS_AUXV_H
#endif

#include <hwy/targets.h>
