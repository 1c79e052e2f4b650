// The rungs' kernels, described in ladder.cu, on row-major [n, n]; n is a multiple of every tile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ridge::kernels::cuda::ladder {

template <int kBytes>
__device__ __forceinline__ void copy_async(float* to, const float* from) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
#else
  for (int i = 0; i < kBytes / 4; ++i) to[i] = from[i];
#endif
}
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// 1
__global__ void naive(int n, const float* a, const float* b, float* c) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; ++k)
    sum = fmaf(a[static_cast<int64_t>(row) * n + k], b[static_cast<int64_t>(k) * n + col], sum);
  c[static_cast<int64_t>(row) * n + col] = sum;
}

// 2
__global__ void coalesced(int n, const float* a, const float* b, float* c) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k)
    sum = fmaf(a[static_cast<int64_t>(row) * n + k], b[static_cast<int64_t>(k) * n + col], sum);
  c[static_cast<int64_t>(row) * n + col] = sum;
}

// 3
__global__ void shared_blocks(int n, const float* a, const float* b, float* c) {
  constexpr int kTile = 32;
  __shared__ float a_tile[kTile][kTile], b_tile[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int64_t row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
  float sum = 0;
  for (int at = 0; at < n; at += kTile) {
    a_tile[y][x] = a[row * n + at + x];
    b_tile[y][x] = b[(at + y) * static_cast<int64_t>(n) + col];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum = fmaf(a_tile[y][k], b_tile[k][x], sum);
    __syncthreads();
  }
  c[row * n + col] = sum;
}

// 4
__global__ void __launch_bounds__(512) column_tiles(int n, const float* a, const float* b, float* c) {
  constexpr int kTile = 64, kDepth = 8, kRows = 8;
  __shared__ float a_tile[kTile][kDepth], b_tile[kDepth][kTile];
  const int t = threadIdx.x, x = t % kTile, y = t / kTile;
  const int64_t row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  float sums[kRows] = {};
  for (int at = 0; at < n; at += kDepth) {
    a_tile[t / kDepth][t % kDepth] = a[(row0 + t / kDepth) * n + at + t % kDepth];
    b_tile[y][x] = b[(at + y) * static_cast<int64_t>(n) + col0 + x];
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
      const float value = b_tile[k][x];
      for (int i = 0; i < kRows; ++i) sums[i] = fmaf(a_tile[y * kRows + i][k], value, sums[i]);
    }
    __syncthreads();
  }
  for (int i = 0; i < kRows; ++i) c[(row0 + y * kRows + i) * n + col0 + x] = sums[i];
}

// 5
__global__ void __launch_bounds__(256) square_tiles(int n, const float* a, const float* b, float* c) {
  constexpr int kTile = 128, kDepth = 8, kSide = 8, kThreads = 256;
  __shared__ float a_tile[kTile][kDepth], b_tile[kDepth][kTile];
  const int t = threadIdx.x, x = t % (kTile / kSide), y = t / (kTile / kSide);
  const int64_t row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  float sums[kSide][kSide] = {};
  for (int at = 0; at < n; at += kDepth) {
    for (int i = t; i < kTile * kDepth; i += kThreads) {
      a_tile[i / kDepth][i % kDepth] = a[(row0 + i / kDepth) * n + at + i % kDepth];
      b_tile[i / kTile][i % kTile] = b[(at + i / kTile) * static_cast<int64_t>(n) + col0 + i % kTile];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float u[kSide], v[kSide];
      for (int i = 0; i < kSide; ++i) u[i] = a_tile[y * kSide + i][k];
      for (int j = 0; j < kSide; ++j) v[j] = b_tile[k][x * kSide + j];
      for (int i = 0; i < kSide; ++i)
        for (int j = 0; j < kSide; ++j) sums[i][j] = fmaf(u[i], v[j], sums[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kSide; ++j) c[(row0 + y * kSide + i) * n + col0 + x * kSide + j] = sums[i][j];
}

// 6, 7
template <int kM, int kN, int kDepth, int kRows, int kCols>
struct VectorTiles {
  static constexpr int kThreads = kM * kN / (kRows * kCols), kTileM = kM, kTileN = kN;
  static constexpr int kShared = 0, kBlocksPerSm = 1;

  static __device__ void run(int n, const float* a, const float* b, float* c) {
    __shared__ alignas(16) float a_tile[kDepth][kM];
    __shared__ alignas(16) float b_tile[kDepth][kN];
    const int t = threadIdx.x, x = t % (kN / kCols), y = t / (kN / kCols);
    const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kM, col0 = static_cast<int64_t>(blockIdx.x) * kN;
    float sums[kRows][kCols] = {};
    for (int at = 0; at < n; at += kDepth) {
      for (int i = t; i < kM * kDepth / 4; i += kThreads) {
        const int row = i / (kDepth / 4), k = i % (kDepth / 4) * 4;
        const float4 v = *reinterpret_cast<const float4*>(a + (row0 + row) * n + at + k);
        a_tile[k][row] = v.x, a_tile[k + 1][row] = v.y, a_tile[k + 2][row] = v.z, a_tile[k + 3][row] = v.w;
      }
      for (int i = t; i < kN * kDepth / 4; i += kThreads) {
        const int k = i / (kN / 4), col = i % (kN / 4) * 4;
        *reinterpret_cast<float4*>(&b_tile[k][col]) =
            *reinterpret_cast<const float4*>(b + (at + k) * static_cast<int64_t>(n) + col0 + col);
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        float u[kRows], v[kCols];
        for (int i = 0; i < kRows; i += 4)
          *reinterpret_cast<float4*>(u + i) = *reinterpret_cast<const float4*>(&a_tile[k][y * kRows + i]);
        for (int j = 0; j < kCols; j += 4)
          *reinterpret_cast<float4*>(v + j) = *reinterpret_cast<const float4*>(&b_tile[k][x * kCols + j]);
        for (int i = 0; i < kRows; ++i)
          for (int j = 0; j < kCols; ++j) sums[i][j] = fmaf(u[i], v[j], sums[i][j]);
      }
      __syncthreads();
    }
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; j += 4)
        *reinterpret_cast<float4*>(c + (row0 + y * kRows + i) * n + col0 + x * kCols + j) =
            make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
  }
};

// 8
template <int kM, int kN, int kDepth, int kWarpM, int kWarpN, int kRows, int kCols, int kStages, int kBlocks,
          int kUnroll = kDepth>
struct WarpTiles {
  static constexpr int kThreads = kM / kWarpM * (kN / kWarpN) * 32, kTileM = kM, kTileN = kN;
  static constexpr int kBlocksPerSm = kBlocks;
  static constexpr int kPitchA = kM + 4; // 4-byte copies hit 32 banks
  static constexpr int kStageFloats = kDepth * (kPitchA + kN);
  static constexpr int kShared = kStages * kStageFloats * 4;
  static constexpr int kLanesN = kWarpN / kCols, kLanesM = kWarpM / kRows;
  static_assert(kLanesM * kLanesN == 32 && kLanesM > 1 && kLanesN > 1 && kRows % 4 == 0 && kCols % 4 == 0);
  static_assert(kM * kDepth % kThreads == 0 && kN * kDepth % (4 * kThreads) == 0);
  static_assert(kThreads % kDepth == 0 && kThreads % (kN / 4) == 0);

  static __device__ void run(int n, const float* a, const float* b, float* c) {
    extern __shared__ __align__(16) float shared[];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int warp_row = warp / (kN / kWarpN) * kWarpM, warp_col = warp % (kN / kWarpN) * kWarpN;
    // 16-byte loads of quarter-warps merge where lanes i, i^1 or i, i^2 read the same word: bit 0 walks along N (same
    // A), bit 1 along M (same B).
    const int lane_row = ((lane >> 1 & 1) | (lane >> 2) / (kLanesN / 2) << 1) * 4;
    const int lane_col = ((lane & 1) | (lane >> 2) % (kLanesN / 2) << 1) * 4;
    const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kM, col0 = static_cast<int64_t>(blockIdx.x) * kN;

    // 32-bit: address arithmetic costs measurably.
    constexpr int kStepA = kThreads / kDepth, kStepB = kThreads / (kN / 4); // per round of copies
    const int a_k = t % kDepth, a_row = t / kDepth, b_k = t / (kN / 4), b_col = t % (kN / 4) * 4;
    uint32_t a_at = (blockIdx.y * kM + a_row) * n + a_k, b_at = b_k * n + blockIdx.x * kN + b_col;
    const auto fetch = [&](int stage) {
      float* a_tile = shared + stage * kStageFloats + a_k * kPitchA + a_row;
      float* b_tile = shared + stage * kStageFloats + kDepth * kPitchA + b_k * kN + b_col;
#pragma unroll
      for (int i = 0; i < kM / kStepA; ++i) copy_async<4>(a_tile + i * kStepA, a + (a_at + i * kStepA * n));
#pragma unroll
      for (int i = 0; i < kDepth / kStepB; ++i) copy_async<16>(b_tile + i * kStepB * kN, b + (b_at + i * kStepB * n));
      a_at += kDepth;
      b_at += kDepth * n;
    };
    float u[2][kRows], v[2][kCols];
    const auto load = [&](int stage, int k, int which) {
      const float* a_row = shared + stage * kStageFloats + k * kPitchA + warp_row + lane_row;
      const float* b_row = shared + stage * kStageFloats + kDepth * kPitchA + k * kN + warp_col + lane_col;
#pragma unroll
      for (int i = 0; i < kRows; i += 4)
        *reinterpret_cast<float4*>(u[which] + i) = *reinterpret_cast<const float4*>(a_row + i * kLanesM);
#pragma unroll
      for (int j = 0; j < kCols; j += 4)
        *reinterpret_cast<float4*>(v[which] + j) = *reinterpret_cast<const float4*>(b_row + j * kLanesN);
    };

    const int steps = n / kDepth;
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      fetch(s);
      commit_copies();
    }
    wait_for_copies<kStages - 2>();
    __syncthreads();
    float sums[kRows][kCols] = {};
    load(0, 0, 0);
    int stage = 0;
    for (int step = 0; step < steps; ++step) {
      const int next = stage + 1 == kStages ? 0 : stage + 1;
      if (step + kStages - 1 < steps) fetch(stage == 0 ? kStages - 1 : stage - 1);
      commit_copies();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        if (k + 1 < kDepth) {
          load(stage, k + 1, (k + 1) % 2);
        } else {
          wait_for_copies<kStages - 2>();
          __syncthreads();
          load(next, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
          for (int j = 0; j < kCols; ++j) { // alternates directions: neighbours share a register
            const int col = i % 2 ? kCols - 1 - j : j;
            sums[i][col] = fmaf(u[k % 2][i], v[k % 2][col], sums[i][col]);
          }
      }
      stage = next;
    }
    static_assert(kDepth % 2 == 0, "the first column of a tile is in buffer 0");
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kCols; j += 4) {
        const int64_t row = row0 + warp_row + lane_row + i / 4 * 4 * kLanesM + i % 4;
        const int64_t col = col0 + warp_col + lane_col + j * kLanesN;
        *reinterpret_cast<float4*>(c + row * n + col) =
            make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
      }
  }
};

// 9, 10. kSplit: 3xTF32.
template <int kM, int kN, int kDepth, int kWarpM, int kWarpN, int kStages, bool kSplit>
struct TensorTiles {
  static constexpr int kThreads = kM / kWarpM * (kN / kWarpN) * 32, kTileM = kM, kTileN = kN;
  static constexpr int kBlocksPerSm = 1;
  static constexpr int kPitchA = kDepth + 4, kPitchB = kN + 8; // no bank conflicts
  static constexpr int kStageFloats = kM * kPitchA + kDepth * kPitchB;
  static constexpr int kShared = kStages * kStageFloats * 4;
  static constexpr int kTilesM = kWarpM / 16, kTilesN = kWarpN / 8;

  static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  template <int kCount>
  static __device__ __forceinline__ void split(const float (&x)[kCount], uint32_t (&big)[kCount],
                                               uint32_t (&small)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      // Like cvt.rna.tf32, but faster; the low 13 bits are ignored.
      big[i] = __float_as_uint(x[i]) + 0x1000;
      if (kSplit) small[i] = __float_as_uint(x[i] - __uint_as_float(big[i] & 0xffffe000)) + 0x1000;
    }
  }

  static __device__ void run(int n, const float* a, const float* b, float* c) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) float shared[];
    const int t = threadIdx.x, warp = t / 32, group = t % 32 / 4, in_group = t % 4;
    const int warp_row = warp / (kN / kWarpN) * kWarpM, warp_col = warp % (kN / kWarpN) * kWarpN;
    const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kM, col0 = static_cast<int64_t>(blockIdx.x) * kN;
    const auto fetch = [&](int stage, int at) {
      float *a_tile = shared + stage * kStageFloats, *b_tile = a_tile + kM * kPitchA;
#pragma unroll
      for (int i = t; i < kM * kDepth / 4; i += kThreads) {
        const int row = i / (kDepth / 4), k = i % (kDepth / 4) * 4;
        copy_async<16>(a_tile + row * kPitchA + k, a + (row0 + row) * n + at + k);
      }
#pragma unroll
      for (int i = t; i < kN * kDepth / 4; i += kThreads) {
        const int k = i / (kN / 4), col = i % (kN / 4) * 4;
        copy_async<16>(b_tile + k * kPitchB + col, b + (at + k) * static_cast<int64_t>(n) + col0 + col);
      }
    };
    for (int s = 0; s < kStages - 1; ++s) {
      fetch(s, s * kDepth);
      commit_copies();
    }
    float sums[kTilesM][kTilesN][4] = {};
    const int steps = n / kDepth;
    for (int step = 0; step < steps; ++step) {
      wait_for_copies<kStages - 2>();
      __syncthreads();
      if (const int ahead = step + kStages - 1; ahead < steps) fetch(ahead % kStages, ahead * kDepth);
      commit_copies();
      const float *a_tile = shared + step % kStages * kStageFloats, *b_tile = a_tile + kM * kPitchA;
#pragma unroll
      for (int k = 0; k < kDepth; k += 8) {
        uint32_t b_big[kTilesN][2], b_small[kTilesN][2];
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
          const float* at = b_tile + (k + in_group) * kPitchB + warp_col + j * 8 + group;
          const float x[2] = {at[0], at[4 * kPitchB]};
          split(x, b_big[j], b_small[j]);
        }
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          const float* at = a_tile + (warp_row + i * 16 + group) * kPitchA + k + in_group;
          const float x[4] = {at[0], at[8 * kPitchA], at[4], at[8 * kPitchA + 4]};
          uint32_t a_big[4], a_small[4];
          split(x, a_big, a_small);
#pragma unroll
          for (int j = 0; j < kTilesN; ++j) {
            if (kSplit) {
              mma(sums[i][j], a_small, b_big[j]);
              mma(sums[i][j], a_big, b_small[j]);
            }
            mma(sums[i][j], a_big, b_big[j]);
          }
        }
      }
    }
    for (int i = 0; i < kTilesM; ++i)
      for (int j = 0; j < kTilesN; ++j) {
        float* at = c + (row0 + warp_row + i * 16 + group) * n + col0 + warp_col + j * 8 + in_group * 2;
        *reinterpret_cast<float2*>(at) = make_float2(sums[i][j][0], sums[i][j][1]);
        *reinterpret_cast<float2*>(at + int64_t{8} * n) = make_float2(sums[i][j][2], sums[i][j][3]);
      }
#endif
  }
};

template <typename Tiles>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocksPerSm)
    tiled(int n, const float* a, const float* b, float* c) {
  Tiles::run(n, a, b, c);
}

} // namespace ridge::kernels::cuda::ladder
