// PTX instructions, with fallbacks for older chips.
#pragma once

#include "kernels/cuda/runtime/timeline.h"

#include <cuda_fp16.h>

#include <cstdint>

namespace ridge::kernels::cuda {

inline constexpr int kWarp = 32;

// 16 bytes from global to shared memory, bypassing registers (sm_80) and L1.
__device__ __forceinline__ void copy_async_16(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
#else
  *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#endif
}

// 4 bytes, through L1.
__device__ __forceinline__ void copy_async_4(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(global) : "memory");
#else
  *static_cast<uint32_t*>(shared) = *static_cast<const uint32_t*>(global);
#endif
}

// Offsets are immediates.
template <int kToOffset, int kFromOffset>
__device__ __forceinline__ void copy_async_16_at(uint32_t shared, const uint8_t* global) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;" ::"r"(shared), "l"(global), "n"(kToOffset),
               "n"(kFromOffset)
               : "memory");
#endif
}

__device__ __forceinline__ void copy_async_16_or_zeros(void* shared, const void* global, bool copies) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(copies ? 16 : 0)
               : "memory");
#else
  *static_cast<uint4*>(shared) = copies ? *static_cast<const uint4*>(global) : uint4{};
#endif
}

// A shared address in one register: nvcc 13.0 otherwise adds a uniform register, which is illegal beside a cache
// policy. `zero`: 0, opaque to the compiler.
__device__ __forceinline__ uint32_t plain_address(const void* shared, int zero) {
  uint32_t address;
  asm volatile("prmt.b32 %0, %1, 0, %2;"
               : "=r"(address)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))), "r"(0x3210 + zero));
  return address;
}

// L2 evicts data with this policy first, and so keeps the KV cache and values.
__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy)); // volatile: made once
#endif
  return policy;
}
// copy_async_16 with such a policy.
template <int kOffset>
__device__ __forceinline__ void copy_async_16(uint32_t shared, const uint8_t* global, uint64_t policy) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0 + %3], [%1 + %3], 16, %2;" ::"r"(shared), "l"(global),
               "l"(policy), "n"(kOffset)
               : "memory");
#else
  const uint4 v = *reinterpret_cast<const uint4*>(global + kOffset);
  asm volatile("st.shared.v4.u32 [%0 + %5], {%1, %2, %3, %4};" ::"r"(shared), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w),
               "n"(kOffset)
               : "memory");
#endif
}

__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most kPending groups are pending.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

class BarrierAddress {
 public:
  __device__ __forceinline__ explicit BarrierAddress(const void* barrier)
      : address_(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))) {}
  // Keeps the address in a register; the compiler would recompute it.
  __device__ __forceinline__ BarrierAddress in_register() const {
    BarrierAddress same = *this;
    asm volatile("" : "+r"(same.address_));
    return same;
  }
  __device__ __forceinline__ BarrierAddress operator+(int count) const {
    BarrierAddress other = *this;
    other.address_ += 8 * count;
    return other;
  }
  __device__ __forceinline__ void arrive() const {
#if __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(address_) : "memory");
#endif
  }
  // Arrives once this thread's previous asynchronous copies have landed.
  __device__ __forceinline__ void arrive_after_copies() const {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address_) : "memory");
#endif
  }
  // Arrives; the phase also waits for `bytes` of bulk copies (sm_90).
  __device__ __forceinline__ void arrive_expecting(uint32_t bytes) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_), "r"(bytes) : "memory");
#endif
  }
  // `bytes`: a multiple of 16, counted by this barrier (sm_90).
  __device__ __forceinline__ void bulk_copy(void* shared, const void* global, uint32_t bytes) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
                 "l"(global), "r"(bytes), "r"(address_)
                 : "memory");
#endif
  }
  // Waits until the phase of this parity is over.
  __device__ __forceinline__ void wait(uint32_t parity) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(address_),
                 "r"(parity)
                 : "memory");
#elif __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(address_),
                 "r"(parity)
                 : "memory");
#endif
  }

 private:
  uint32_t address_;
};

// An mbarrier (sm_80): the phase flips after all arrivals.
struct CopyBarrier {
  uint64_t state;

  __device__ __forceinline__ void init(int arrivals) {
#if __CUDA_ARCH__ >= 800
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(&state));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
#endif
  }
  __device__ __forceinline__ void arrive() { BarrierAddress(this).arrive(); }
  __device__ __forceinline__ void wait(uint32_t parity) { BarrierAddress(this).wait(parity); }
};

__device__ __forceinline__ uint32_t dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

// Makes initialized barriers visible to bulk copies; fence_bulk_copies orders this thread's stores to shared memory
// before its later bulk copies.
__device__ __forceinline__ void fence_barrier_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ __forceinline__ void fence_bulk_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Programmatic dependent launch (sm_90): a successor waits before it touches its predecessor's outputs; it may load
// weights before.
__device__ __forceinline__ void let_successor_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Dataflow sync: a running kernel passes values to its running successor. Memory holds kSentinel, a NaN that arithmetic
// never gives, until a value is stored; the reader spins on it. No fence is needed, because each value is its own flag.
// Relaxed accesses go to L2, which all multiprocessors see.
inline constexpr uint32_t kSentinel = 0xffffffff;

__device__ __forceinline__ float load_latest(const float* from) {
  float v;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(from));
  return v;
}
__device__ __forceinline__ float2 load_latest_2(const float* from) {
  float2 v;
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(from));
  return v;
}
__device__ __forceinline__ float4 load_latest_4(const float* from) {
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from));
  return v;
}
__device__ __forceinline__ void store_latest(float* to, float value) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}
__device__ __forceinline__ void store_latest(float* to, float4 v) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
// Atomic increment, acquire-release; returns the previous number. The block with the last ticket sees all that the
// others stored before theirs. 0.35 µs faster than an addition between two fences.
__device__ __forceinline__ unsigned take_ticket(unsigned* tickets) {
  unsigned before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
  return before;
}
__device__ __forceinline__ bool is_sentinel(float v) { return __float_as_uint(v) == kSentinel; }
__device__ __forceinline__ bool is_sentinel(float4 v) {
  return is_sentinel(v.x) || is_sentinel(v.y) || is_sentinel(v.z) || is_sentinel(v.w);
}
template <int kCount>
__device__ __forceinline__ bool is_sentinel(const float (&v)[kCount]) {
  bool any = false;
#pragma unroll
  for (float value : v) any |= is_sentinel(value);
  return any;
}
__device__ __forceinline__ void put(float* to, float4 v) { to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w; }

// Profile stamps (timeline.h), by a block's first thread; stamp_latest: the last of its warps.
__device__ __forceinline__ Stamp global_time() {
  Stamp ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}
__device__ __forceinline__ Stamp* stamp_at(Stamp* stamps, int place) {
  return stamps + kStampPlaces * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) + place;
}
__device__ __forceinline__ void stamp(Stamp* stamps, int place) {
  if (stamps && threadIdx.x == 0) *stamp_at(stamps, place) = global_time();
}
__device__ __forceinline__ void stamp_latest(Stamp* stamps, int place) {
  if (stamps && threadIdx.x % kWarp == 0) atomicMax(stamp_at(stamps, place), global_time());
}

// For kernels with work before their predecessor's end. All blocks must call wait(), even without work, because a
// successor that waits for this kernel relies on it.
class OverlappingWork {
 public:
  __device__ __forceinline__ explicit OverlappingWork(Stamp* stamps) : stamps_(stamps) {
    let_successor_start();
    stamp(stamps, kStarts);
  }
  __device__ __forceinline__ void wait() const {
    wait_for_predecessor();
    stamp(stamps_, kPredecessorDone);
  }
  __device__ __forceinline__ ~OverlappingWork() { stamp_latest(stamps_, kEnds); }
  OverlappingWork(const OverlappingWork&) = delete;

 private:
  Stamp* stamps_;
};

// For kernels without such work.
class DependentWork : public OverlappingWork {
 public:
  __device__ __forceinline__ explicit DependentWork(Stamp* stamps) : OverlappingWork(stamps) { wait(); }
};

__device__ __forceinline__ void prefetch_l2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

// Counts the common ones of rows of a and b, [8 x 128 bits] each. Lane l holds word l % 4 of row l / 4, and gets a's
// row l / 4 with b's rows 2 (l % 4) and + 1. sm_75 counts differing ones.
__device__ __forceinline__ int2 common_ones(uint32_t a, uint32_t b) {
  int2 counts;
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%0, %1}, {%2}, {%3}, {%4, %4};"
      : "=r"(counts.x), "=r"(counts.y)
      : "r"(a), "r"(b), "r"(0));
#else
  const auto differing = [](uint32_t a, uint32_t b) {
    int2 counts;
    asm("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%0, %1}, {%2}, {%3}, {%4, %4};"
        : "=r"(counts.x), "=r"(counts.y)
        : "r"(a), "r"(b), "r"(0));
    return counts;
  };
  const int2 of_a = differing(a, 0), of_b = differing(0, b), of_both = differing(a, b);
  counts = {(of_a.x + of_b.x - of_both.x) / 2, (of_a.y + of_b.y - of_both.y) / 2};
#endif
  return counts;
}

// d += a · b for f16 a [16 x 16], b [16 x 8], f32 d. With g = l / 4, t = l % 4, lane l has
//   a: rows g, g+8, g, g+8 at k = 2t (first two words), 2t + 8 (last two); b: column g at k = 2t, 2t + 8;
//   d: columns 2t, 2t+1 of row g, then of row g+8.
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

// d += a · b for int8 a [16 x 32], b [32 x 8] (sm_80). Words have k = 4t to 4t + 3, or 16 more.
__device__ __forceinline__ void mma_16x8x32(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// d = a · b + c; in the second a [16 x 16], b [16 x 8].
__device__ __forceinline__ void mma_16x8x32(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int c) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
#endif
}
__device__ __forceinline__ void mma_16x8x16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, int c) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(c));
#endif
}

// Loads four 8x8 f16 tiles in mma's order; lanes 8i … 8i+7 have the row addresses of tile i.
__device__ __forceinline__ void load_matrix_x4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrix_x4(uint32_t (&r)[4], const void* shared) {
  load_matrix_x4(r, static_cast<uint32_t>(__cvta_generic_to_shared(shared)));
}

__device__ __forceinline__ void load_matrix_transposed_x4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void load_matrix_transposed_x4(uint32_t (&r)[4], const void* shared) {
  load_matrix_transposed_x4(r, static_cast<uint32_t>(__cvta_generic_to_shared(shared)));
}

// Transposes an 8x8 f16 tile: lane l has columns 2 (l % 4) and + 1 of row l / 4.
__device__ __forceinline__ uint32_t transposed_8x8(uint32_t pair) {
  uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

__device__ __forceinline__ uint32_t pack_half2(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ float exp2_approx(float x) { // 2 ulp; 0 below 2^-126
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal(float x) { // 1 ulp; infinite below 2^-126
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <typename T, typename Combine>
__device__ __forceinline__ T warp_reduce(T value, Combine combine, int lanes = kWarp) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}
__device__ __forceinline__ float warp_sum(float value) {
  return warp_reduce(value, [](float a, float b) { return a + b; });
}

// Returns the sum in all threads. `scratch`: a float per warp.
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  const float total = warp_sum(threadIdx.x % kWarp < blockDim.x / kWarp ? scratch[threadIdx.x % kWarp] : 0);
  __syncthreads();
  return total;
}

} // namespace ridge::kernels::cuda
