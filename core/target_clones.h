// Compiles a function for several instruction sets, chosen at load time; for loops not worth Highway. ThreadSanitizer
// starts too late for that.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define RIDGE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RIDGE_CLONES
#endif
