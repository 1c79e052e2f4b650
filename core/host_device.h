// RIDGE_HD marks the small functions that are the same on the host and in CUDA kernels. On the host they are forced
// inline, because the CPU kernels include them into code compiled for newer instruction sets: an out-of-line copy would
// be compiled for the baseline.
#pragma once

#ifdef __CUDACC__
#define RIDGE_HD __host__ __device__ __forceinline__
#else
#define RIDGE_HD inline __attribute__((always_inline))
#endif
