// RIDGE_CLONES before a function with a plain loop: it is compiled for several instruction sets, and the best that the
// machine has is taken at load time. For loops that are not worth Highway (kernels/cpu). Not with ThreadSanitizer,
// which starts after that choice, and whose code the choice would run.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define RIDGE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RIDGE_CLONES
#endif
