// Large values: a block writes a piece to all others, then its flag, and reads theirs once flagged.
#pragma once

#include "kernels/cuda/exchange/exchange_memory.h"

namespace ridge::kernels::cuda {

// Whether to stop waiting for `from`: a rank failed. Notes a rank that is late.
__device__ __forceinline__ bool gives_up(const ExchangeArgs& args, int from, uint64_t& begin_ns) {
  volatile Trouble* trouble = args.trouble;
  if (trouble->failed != 0) return true;
  if (args.patience_ns == 0) return false;
  uint64_t now_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now_ns));
  if (begin_ns == 0)
    begin_ns = now_ns;
  else if (now_ns - begin_ns > args.patience_ns)
    trouble->late = from + 1;
  return false;
}

// Spins until `arrived`, or until a rank fails. `arrived` may change `from`, the rank that is waited for.
template <typename Arrived>
__device__ __forceinline__ void wait_until(const ExchangeArgs& args, const int& from, Arrived&& arrived) {
  constexpr int kSpins = 4096; // between host reads
  uint64_t begin_ns = 0;
  for (int spins = 1; !arrived(); ++spins)
    if (spins % kSpins == 0 && gives_up(args, from, begin_ns)) return;
}

__device__ __forceinline__ void raise(uint32_t* flag, uint32_t number) {
  asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(flag), "r"(number) : "memory");
}

__device__ __forceinline__ bool is_raised(const uint32_t* flag, uint32_t number) {
  uint32_t found;
  asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
  return found == number;
}

// Bypasses L1: another GPU writes it.
template <typename T>
__device__ __forceinline__ T fresh(const T* from) {
  return __ldcv(from);
}

// The other ranks, from the next one on: each rank writes to another one first.
template <typename Run>
__host__ __device__ __forceinline__ void each_other(const ExchangeArgs& args, Run&& run) {
  for (int i = 1; i < args.ranks; ++i) {
    const int to = args.rank + i;
    run(to < args.ranks ? to : to - args.ranks);
  }
}

// Whole blocks call the functions with flags.
class PieceMail {
 public:
  __device__ __forceinline__ explicit PieceMail(const ExchangeArgs& args)
      : args_(args), number_(args.numbers->first + args.place), half_(static_cast<int>(number_ % 2) * args.ranks) {}

  template <typename Run>
  __device__ __forceinline__ void each_other(Run&& run) const {
    cuda::each_other(args_, run);
  }
  // In `owner`'s memory.
  __device__ __forceinline__ float* pieces(int owner, int from) const {
    return args_.mailboxes[owner].pieces + (half_ + from) * args_.most_pieces * kPieceFloats;
  }
  // The barrier orders the block's stores before one thread's release.
  __device__ __forceinline__ void raise_flags(int64_t piece) const {
    __syncthreads();
    if (is_other()) raise(flag(threadIdx.x, args_.rank, piece), number_);
  }
  __device__ __forceinline__ void raise_flag(int to, int64_t piece) const {
    __syncthreads();
    if (threadIdx.x == 0) raise(flag(to, args_.rank, piece), number_);
  }
  __device__ __forceinline__ void wait_for_flags(int64_t piece) const {
    if (is_other()) wait_for(threadIdx.x, piece);
    __syncthreads();
  }
  __device__ __forceinline__ void wait_for_flag(int from, int64_t piece) const {
    if (threadIdx.x == 0) wait_for(from, piece);
    __syncthreads();
  }

 private:
  __device__ __forceinline__ bool is_other() const { return threadIdx.x < args_.ranks && threadIdx.x != args_.rank; }
  __device__ __forceinline__ void wait_for(int from, int64_t piece) const {
    wait_until(args_, from, [&] { return is_raised(flag(args_.rank, from, piece), number_); });
  }
  __device__ __forceinline__ uint32_t* flag(int owner, int from, int64_t piece) const {
    return args_.mailboxes[owner].flags + (half_ + from) * args_.most_flags + piece;
  }

  const ExchangeArgs& args_;
  uint32_t number_;
  int half_;
};

} // namespace ridge::kernels::cuda
