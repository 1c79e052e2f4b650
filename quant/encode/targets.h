// Which instruction sets the encoders are compiled for; include before any Highway header. Portable C++, AVX2 and
// AVX-512 on x86; other machines have their one static target.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/targets.h>
