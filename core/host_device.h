// RIDGE_HD marks the small functions that are the same on the host and in CUDA kernels. On the host they are forced
// inline, because the CPU kernels include them into code compiled for newer instruction sets: an out-of-line copy would
// be compiled for the baseline.
//
// RIDGE_TABLE begins the definition of a constant array that such functions index: one object on the host, and in CUDA
// code a copy in the device memory of each translation unit that uses it.
//
// RIDGE_VECTOR_LOOP before a short loop keeps g++ from unrolling it before its vectorizer has seen it, which it does to
// nested loops of up to 16 iterations and which makes scalar code of them.
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
