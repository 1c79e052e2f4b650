// RIDGE_CLONES before a function with a plain loop: it is compiled for several instruction sets, and the best that the
// machine has is taken at load time. For loops that are not worth Highway (kernels/cpu).
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define RIDGE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RIDGE_CLONES
#endif
