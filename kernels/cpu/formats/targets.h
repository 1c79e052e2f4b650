// Which instruction sets the kernels are compiled for; include before any Highway header.
//
// Four: portable C++ (SCALAR), AVX2, AVX-512 and AVX-512 with VNNI (AVX3_DL). Each further one would cost its share of
// compile time for CPUs of before 2013; machines other than x86 use their single static target.
#pragma once

#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/targets.h>
