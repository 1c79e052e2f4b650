// What the prefill attention kernels on Hopper share: tensor copies and positions in swizzled tiles.
#pragma once

#include "core/rings.h"
#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/hopper.cuh"
#include "kernels/cuda/runtime/tensor_map.h"

namespace ridge::kernels::cuda {

// A copy fetches a box: all keys of a step, or 32 of a ring buffer, whose size is a multiple of 32, so that it wraps
// between boxes.
inline constexpr int kRingBoxRows = core::kRingTile;

struct CacheMaps {
  CUtensorMap keys, values;
  int box_rows;
};

// For steps of `step_keys`; `values` have rows as wide as keys.
inline CacheMaps cache_maps(const Cache& cache, const void* values, int step_keys) {
  const int64_t matrices = int64_t{cache.streams} * cache.heads;
  const int box = cache.ring ? kRingBoxRows : step_keys;
  const auto map = [&](const void* rows) { return tensor_map(rows, matrices, cache.rows, cache.k_dim, box); };
  return {map(cache.k), map(values), box};
}

#ifdef RIDGE_HAS_WGMMA

// Completes on the barrier `arrived`.
__device__ __forceinline__ void copy_box(uint8_t* to, const CUtensorMap& map, int column, int row, int matrix,
                                         const CopyBarrier& arrived) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
               "[%5];" ::"r"(shared_address(to)),
               "l"(&map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(&arrived))
               : "memory");
}

// Byte offset of a 16-byte piece in swizzled tiles of 64 columns.
__device__ __forceinline__ int swizzled(int row, int piece, int rows) {
  return (piece / 8 * rows + row) * 128 + ((piece % 8) ^ (row % 8)) * 16;
}

// Stores to shared memory become visible to wgmma, after a barrier.
__device__ __forceinline__ void fence_shared_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <int kThreads>
__device__ __forceinline__ void wait_at_barrier(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(kThreads) : "memory");
}

#endif

} // namespace ridge::kernels::cuda
