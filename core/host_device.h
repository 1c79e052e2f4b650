// RIDGE_HD marks functions for host and CUDA. They are always inlined on the host: an out-of-line copy would have the
// baseline instruction set.
// RIDGE_TABLE begins a constant array; in CUDA each translation unit has a copy in device memory.
// RIDGE_VECTOR_LOOP keeps g++ from unrolling short nested loops (up to 16 iterations) before it vectorizes them.
#pragma once

#ifdef __CUDACC__
#define RIDGE_HD __host__ __device__ __forceinline__
#else
#define RIDGE_HD inline __attribute__((always_inline))
#endif

#ifdef __CUDA_ARCH__
#define RIDGE_TABLE static __device__ constexpr
#else
#define RIDGE_TABLE inline constexpr
#endif

#if defined(__CUDACC__)
#define RIDGE_VECTOR_LOOP _Pragma("unroll")
#elif defined(__clang__)
#define RIDGE_VECTOR_LOOP
#else
#define RIDGE_VECTOR_LOOP _Pragma("GCC unroll 1")
#endif
