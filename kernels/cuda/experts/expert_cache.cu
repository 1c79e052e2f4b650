#include "kernels/cuda/experts/expert_cache.h"

#include "core/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/runtime/warp.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 512, kPieces = 4; // in flight per thread

// Distance below the largest heat, in 1/1024 of log2. An expert used in every step has 1 / (1 - 2^(-1 / kUsesHalfLife))
// = 145 < 2^8 current uses.
constexpr float kPerStep = static_cast<float>(1 / kUsesHalfLife), kLog2Hottest = 8;
constexpr uint32_t kColdest = (1 << 21) - 1;

__device__ __forceinline__ uint32_t coldness(float heat, uint32_t step) {
  const float below = kLog2Hottest - (heat - static_cast<float>(step) * kPerStep);
  return static_cast<uint32_t>(fminf(fmaxf(below * 1024, 1), static_cast<float>(kColdest - 1)));
}

__device__ __forceinline__ float used(float heat, uint32_t step) {
  const float now = static_cast<float>(step) * kPerStep;
  return fmaxf(heat, now) + log2f(1 + exp2f(-fabsf(heat - now)));
}

__global__ void clear_experts_kernel(const __grid_constant__ ExpertCacheArgs args) {
  for (int e = threadIdx.x; e < args.experts; e += kThreads) {
    args.places[e] = e * args.block_bytes;
    args.slot_of[e] = -1;
  }
  for (int s = threadIdx.x; s < args.slots; s += kThreads) args.expert_in[s] = -1;
}

struct Choice {
  uint32_t wanted[core::kMaxExperts / 32];
  int16_t slot_of[core::kMaxExperts];
  uint32_t cold[core::kMaxExperts];         // 0: used in this step
  static_assert(core::kMaxExperts <= 1024); // slots fit 10 bits
  uint32_t on_cpu[core::kMaxExperts / 32];
  int asked; // slots that the CPU computes

  __device__ __forceinline__ bool is_wanted(int e) const { return wanted[e / 32] >> e % 32 & 1; }
  __device__ __forceinline__ bool is_on_cpu(int e) const { return on_cpu[e / 32] >> e % 32 & 1; }

  // By a warp, coldness << 10 | slot. Coldness 0: all are in use; empty ones are coldest.
  __device__ __forceinline__ uint32_t coldest(int slots) const {
    uint32_t best = 0;
    for (int s = threadIdx.x; s < slots; s += kWarp) best = max(best, cold[s] << 10 | static_cast<uint32_t>(s));
    return warp_max(best);
  }
  // -1: all are in use.
  __device__ __forceinline__ int coldest_slot(int slots) const {
    const uint32_t best = coldest(slots);
    return best >> 10 == 0 ? -1 : static_cast<int>(best & 1023);
  }
};

// Tables do not change between a layer's steps, so they are read before the predecessor ends.
__device__ __forceinline__ void read_tables(const ExpertCacheArgs& args, uint32_t step, Choice& choice) {
  for (int i = threadIdx.x; i < core::kMaxExperts / 32; i += kThreads) choice.wanted[i] = choice.on_cpu[i] = 0;
  if (threadIdx.x == 0) choice.asked = 0;
  for (int e = threadIdx.x; e < args.experts; e += kThreads) choice.slot_of[e] = static_cast<int16_t>(args.slot_of[e]);
  for (int s = threadIdx.x; s < args.slots; s += kThreads) {
    const int e = args.expert_in[s];
    choice.cold[s] = e < 0 ? kColdest : coldness(args.heat[e], step);
  }
}

__device__ __forceinline__ void take_slot(const ExpertCacheArgs& args, int e, int slot) {
  if (const int before = args.expert_in[slot]; before >= 0) {
    args.slot_of[before] = -1;
    args.places[before] = before * args.block_bytes;
  }
  args.slot_of[e] = slot;
  args.expert_in[slot] = e;
  args.places[e] = args.cached - args.host + slot * args.block_bytes;
}

// By a warp: the CPU's experts, the coldest of those missing.
__device__ __forceinline__ void choose_for_cpu(const ExpertCacheArgs& args, const int32_t* ids, int count,
                                               uint32_t step, Choice& choice) {
  constexpr int kOfLane = core::kMostMailedExperts / kWarp;
  constexpr uint32_t kTwiceAsHot = 1024;
  uint32_t mine[kOfLane]; // coldness << 10 | expert, once per expert; 0: not missing
  int missing = 0;
#pragma unroll
  for (int k = 0; k < kOfLane; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kWarp, e = i < count ? ids[i] : -1;
    bool misses = e >= 0 && choice.slot_of[e] < 0;
    for (int before = 0; misses && before < i; ++before) misses = ids[before] != e;
    mine[k] = misses ? coldness(args.heat[e], step) << 10 | static_cast<uint32_t>(e) : 0;
    missing += __popc(__ballot_sync(~0u, misses));
  }
  const uint32_t evicted = choice.coldest(args.slots) >> 10;
  for (int left = args.cpu.share[missing]; left > 0; --left) {
    uint32_t coldest = 0;
#pragma unroll
    for (uint32_t each : mine) coldest = max(coldest, each);
    coldest = warp_max(coldest);
    if (evicted > (coldest >> 10) + kTwiceAsHot) break;
    const uint32_t e = coldest & 1023;
    if (threadIdx.x == 0) choice.on_cpu[e / 32] |= 1u << e % 32;
#pragma unroll
    for (uint32_t& each : mine)
      if (each == coldest) each = 0;
  }
  __syncwarp();
  int asked = 0;
#pragma unroll
  for (int k = 0; k < kOfLane; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kWarp;
    const bool asks = i < count && choice.is_on_cpu(ids[i]);
    const uint32_t all = __ballot_sync(~0u, asks);
    if (asks) args.cpu.asked[1 + asked + __popc(all & ((1u << threadIdx.x) - 1))] = i;
    asked += __popc(all);
  }
  if (threadIdx.x == 0) choice.asked = args.cpu.asked[0] = asked;
}

// Finds slots for wanted experts. Returns the number of copies, to the first warp.
__device__ __forceinline__ int choose_slots(const ExpertCacheArgs& args, const int32_t* ids, int count, uint32_t step,
                                            bool asks, Choice& choice) {
  for (int i = threadIdx.x; i < count; i += kThreads) atomicOr(&choice.wanted[ids[i] / 32], 1u << ids[i] % 32);
  __syncthreads();
  for (int e = threadIdx.x; e < args.experts; e += kThreads) {
    if (!choice.is_wanted(e)) continue;
    args.heat[e] = used(args.heat[e], step);
    if (const int slot = choice.slot_of[e]; slot >= 0) choice.cold[slot] = 0;
  }
  __syncthreads();
  if (threadIdx.x >= kWarp) return 0;
  if (asks) choose_for_cpu(args, ids, count, step, choice);
  int copies = 0, spilled = 0, found = 0, missed = 0;
  for (int first = 0; first < args.experts; first += kWarp) {
    const int mine = first + static_cast<int>(threadIdx.x);
    const bool want = mine < args.experts && choice.is_wanted(mine), has = want && choice.slot_of[mine] >= 0;
    found += __popc(__ballot_sync(~0u, has));
    uint32_t missing = __ballot_sync(~0u, want && !has);
    missed += __popc(missing);
    for (; missing; missing &= missing - 1) {
      const int e = first + __ffs(static_cast<int>(missing)) - 1;
      if (choice.is_on_cpu(e)) { // products read any expert
        if (threadIdx.x == 0) args.places[e] = args.cached - args.host;
        continue;
      }
      const int slot = choice.coldest_slot(args.slots);
      const bool stays = slot < 0 && spilled == args.spill_places;
      if (threadIdx.x == 0) {
        if (slot >= 0) {
          take_slot(args, e, slot);
          choice.cold[slot] = 0;
        } else {
          args.places[e] = stays ? e * args.block_bytes : args.spill - args.host + spilled * args.block_bytes;
        }
        if (!stays) args.copies[copies] = e;
      }
      copies += !stays;
      spilled += slot < 0 && !stays;
      __syncwarp();
    }
  }
  if (threadIdx.x == 0) {
    args.statistics[0] += found;
    args.statistics[1] += missed;
  }
  return copies;
}

__device__ __forceinline__ void publish(uint64_t* to, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t published(const uint64_t* from) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

// By the first block, after its choice.
__device__ __forceinline__ void ask_cpu(const CpuExpertArgs& cpu, const int32_t* ids, int count, const float* x,
                                        int rows, int asked) {
  core::ExpertMail& mail = *cpu.mail;
  if (asked > 0) {
    const int used = count / rows;
    for (int i = threadIdx.x; i < asked; i += kThreads) {
      const int slot = cpu.asked[1 + i];
      mail.expert[i] = ids[slot];
      mail.row[i] = slot / used;
    }
    for (int i = threadIdx.x; i < rows * cpu.width / 4; i += kThreads)
      reinterpret_cast<float4*>(cpu.x)[i] = reinterpret_cast<const float4*>(x)[i];
    if (threadIdx.x == 0) mail.layer = cpu.layer;
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
  const uint64_t sent = ++*cpu.messages;
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&mail.sent),
               "l"(sent << core::kMailCountBits | static_cast<uint32_t>(asked))
               : "memory");
}

__device__ __forceinline__ void copy_block(const uint8_t* host, uint8_t* copy, int64_t bytes) {
  const auto* from = reinterpret_cast<const uint4*>(host);
  auto* to = reinterpret_cast<uint4*>(copy);
  const int64_t pieces = bytes / 16, stride = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < pieces; at += kPieces * stride) {
    uint4 piece[kPieces];
#pragma unroll
    for (int k = 0; k < kPieces; ++k)
      if (at + k * stride < pieces) piece[k] = __ldcs(from + at + k * stride);
#pragma unroll
    for (int k = 0; k < kPieces; ++k)
      if (at + k * stride < pieces) to[at + k * stride] = piece[k];
  }
}

// The first block chooses and publishes the step with the number of copies while the others spin; then all copy. Each
// block counts steps itself.
__global__ void __launch_bounds__(kThreads)
    fetch_experts_kernel(const __grid_constant__ ExpertCacheArgs args, const int32_t* ids, int count, const float* x,
                         int rows, Stamp* stamps) {
  __shared__ Choice choice;
  __shared__ int shared_copies;
  const uint32_t step = args.steps[blockIdx.x] + 1;
  if (blockIdx.x == 0) read_tables(args, step, choice);
  const DependentWork work(stamps);
  __syncthreads();
  if (blockIdx.x == 0) {
    const bool asks = x && args.cpu.mail;
    const int copies = choose_slots(args, ids, count, step, asks, choice);
    if (threadIdx.x == 0) {
      publish(args.published, uint64_t{step} << 32 | static_cast<uint32_t>(copies));
      shared_copies = copies;
    }
    if (asks) {
      __syncthreads();
      ask_cpu(args.cpu, ids, count, x, rows, choice.asked);
    }
  } else if (threadIdx.x == 0) {
    uint64_t now;
    do now = published(args.published);
    while (now >> 32 != step);
    shared_copies = static_cast<int>(now);
  }
  __syncthreads();
  for (int i = 0; i < shared_copies; ++i) {
    const int e = args.copies[i];
    copy_block(args.host + e * args.block_bytes, const_cast<uint8_t*>(args.host) + args.places[e], args.block_bytes);
  }
  if (threadIdx.x == 0) args.steps[blockIdx.x] = step;
}

// From host memory, which is never cached.
__device__ __forceinline__ void copy_row(const float* from, int width, float* to) {
  for (int at = 4 * static_cast<int>(threadIdx.x); at < width; at += 8 * kThreads) {
    float4 v[2];
#pragma unroll
    for (int k = 0; k < 2; ++k)
      if (const int i = at + 4 * k * kThreads; i < width)
        asm volatile("ld.relaxed.sys.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[k].x), "=f"(v[k].y), "=f"(v[k].z), "=f"(v[k].w)
                     : "l"(from + i));
#pragma unroll
    for (int k = 0; k < 2; ++k)
      if (const int i = at + 4 * k * kThreads; i < width) *reinterpret_cast<float4*>(to + i) = v[k];
  }
}

// A block per slot.
__global__ void __launch_bounds__(kThreads)
    receive_experts_kernel(const __grid_constant__ CpuExpertArgs cpu, float* out, Stamp* stamps) {
  __shared__ bool answered;
  const DependentWork work(stamps);
  const int i = static_cast<int>(blockIdx.x);
  if (i >= cpu.asked[0]) return;
  if (threadIdx.x == 0) {
    const uint64_t number = *cpu.messages;
    volatile uint32_t* failed = cpu.failed;
    const Stamp start = global_time();
    uint64_t now;
    do {
      asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(now) : "l"(&cpu.mail->answered) : "memory");
      if (now < number && global_time() - start > cpu.patience_ns) {
        *failed = 1;
        *static_cast<volatile uint32_t*>(&cpu.mail->failed) = 1;
      }
    } while (now < number && !*failed);
    answered = now >= number;
  }
  __syncthreads();
  if (!answered) return;
  copy_row(cpu.results + int64_t{i} * cpu.width, cpu.width, out + int64_t{cpu.asked[1 + i]} * cpu.width);
}

} // namespace

void launch_clear_experts(const Launch& launch, const ExpertCacheArgs& args) {
  launch(clear_experts_kernel, 1, kThreads, 0, args);
}

void launch_fetch_experts(const Launch& launch, const ExpertCacheArgs& args, const int32_t* ids, int count,
                          const float* x, int rows) {
  launch(fetch_experts_kernel, static_cast<unsigned>(launch.sm_count), kThreads, 0, args, ids, count, x, rows,
         launch.stamps());
}

void launch_receive_experts(const Launch& launch, const CpuExpertArgs& args, float* out, int slots) {
  launch(receive_experts_kernel, static_cast<unsigned>(slots), kThreads, 0, args, out, launch.stamps());
}

} // namespace ridge::kernels::cuda
