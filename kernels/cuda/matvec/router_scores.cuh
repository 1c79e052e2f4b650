// A folded router's scores (router/folded_router.h) in a product's kernel: f32 rows times the unconverted activations
// and the residual. A bulk copy, before sm_90 all threads' copies, bring a block's rows (at most two) into shared
// memory.
#pragma once

#include "kernels/cuda/matvec/beside.cuh"
#include "kernels/cuda/matvec/weight_ring.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

template <int kTokens>
class RouterScores : public NothingBeside {
 public:
  __device__ __forceinline__ RouterScores(const RouterRows& router, const MatvecArgs& args)
      : router_(router), args_(args), columns_(args.cols + router.width), first_row_(blockIdx.x * router.rows),
        count_(min(router.rows, router.route.experts - first_row_)) {
    extern __shared__ uint4 shared[];
    rows_ = reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(shared) + router.shared_offset);
    sums_ = rows_ + router.rows * columns_;
  }

  __device__ __forceinline__ void start() {
    if (count_ <= 0) return;
    auto* barrier = reinterpret_cast<CopyBarrier*>(sums_ + kRouterSums);
    const float* const from = router_.matrix + int64_t{first_row_} * columns_;
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      barrier->init(1);
      fence_barrier_init();
      const BarrierAddress copies(barrier);
      const auto bytes = static_cast<uint32_t>(count_ * columns_) * 4;
      copies.arrive_expecting(bytes);
      copies.bulk_copy(rows_, from, bytes);
    }
#else
    const auto threads = static_cast<int>(blockDim.x);
    if (threadIdx.x == 0) barrier->init(threads);
#pragma unroll 1
    for (int i = 4 * static_cast<int>(threadIdx.x); i < count_ * columns_; i += 4 * threads)
      copy_async_16(rows_ + i, from + i);
#endif
    if (const int i = 4 * threadIdx.x; i < router_.width)
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
        if (t < args_.tokens) residual_[t] = load_latest_4(residual(t, i));
    if (router_.constant && my_row() < count_) constant_ = router_.constant[first_row_ + my_row()];
  }

  // While activations arrive.
  template <typename Rows>
  __device__ __forceinline__ void prepare(const Rows&) {
    if (count_ <= 0) return;
    wait_for_rows();
#pragma unroll 1
    for (int i = 4 * threadIdx.x; i < router_.width; i += 4 * static_cast<int>(blockDim.x))
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        if (t >= args_.tokens) continue;
        float4 x = residual_[t];
        if (i != 4 * static_cast<int>(threadIdx.x)) x = load_latest_4(residual(t, i));
        while (is_sentinel(x)) x = load_latest_4(residual(t, i));
        add(t, x, args_.cols + i);
      }
  }

  __device__ __forceinline__ void add(int t, const float (&x)[8], int column) {
    if (count_ <= 0) return;
    add(t, float4{x[0], x[1], x[2], x[3]}, column);
    add(t, float4{x[4], x[5], x[6], x[7]}, column + 4);
  }
  __device__ __forceinline__ void add(int t, float4 x, int column) {
#pragma unroll
    for (int r = 0; r < kMaxRouterRows; ++r)
      if (r < count_) {
        const float4 w = *reinterpret_cast<const float4*>(rows_ + r * columns_ + column);
        sum_[t][r] += w.x * x.x + w.y * x.y + w.z * x.z + w.w * x.w;
      }
  }

  __device__ __forceinline__ void finish() { store_warp_sums(sums_, sum_, count_); }

  // After a barrier: one warp per score.
  __device__ __forceinline__ void publish() const {
    const int t = threadIdx.x / kWarp / kMaxRouterRows;
    if (t >= min(kTokens, args_.tokens) || my_row() >= count_) return;
    const float score = add_warp_sums(sums_) + constant_;
    if (threadIdx.x % kWarp == 0)
      store_latest(router_.route.scores + t * router_.route.experts + first_row_ + my_row(), score);
  }

 private:
  __device__ __forceinline__ static int my_row() { return threadIdx.x / kWarp % kMaxRouterRows; }
  __device__ __forceinline__ const float* residual(int t, int i) const {
    return args_.residual + t * args_.residual_stride + i;
  }
  __device__ __forceinline__ void wait_for_rows() const {
    const BarrierAddress copies(sums_ + kRouterSums);
#if __CUDA_ARCH__ < 900
    copies.arrive_after_copies();
#endif
    copies.wait(0);
  }
  const RouterRows& router_;
  const MatvecArgs& args_;
  int columns_, first_row_, count_;
  float *rows_, *sums_;
  float4 residual_[kTokens];
  float sum_[kTokens][kMaxRouterRows] = {}, constant_ = 0;
};

} // namespace ridge::kernels::cuda
