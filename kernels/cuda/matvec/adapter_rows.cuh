// LoRA adapters in a product's kernel: W x + B (scale * (A x)), without a launch of their own.
//
// The first blocks, which have the fewest row blocks of W, also multiply up to kMaxAdapterRows rows of A each, while x
// is staged. They store scale * (A x) in global memory, where all blocks of the kernel find them (dataflow sync) before
// they add up their results; meanwhile W is multiplied. Blocks wait only for blocks that start no later than they do.
// Bulk copies bring the rows of A, before the first weights of W, and B, behind them, into shared memory.
//
// With a norm, rows of A hold its weights, and 1/rms is applied with W's.
#pragma once

#include "core/program.h"
#include "kernels/cuda/matvec/beside.cuh"
#include "kernels/cuda/matvec/weight_ring.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

// kMost: rows of A, so that the usual single one takes less code.
template <int kTokens, int kMost>
class AdapterRows : public NothingBeside {
 public:
  // `turn`: 0 for the block that starts first.
  __device__ __forceinline__ AdapterRows(const AdapterArgs& adapter, const MatvecArgs& args, int turn)
      : adapter_(adapter), args_(args), first_row_(turn * adapter.cut.rows),
        count_(min(adapter.cut.rows, adapter.padded - first_row_)) {
    extern __shared__ uint4 shared[];
    uint8_t* begin = reinterpret_cast<uint8_t*>(shared) + adapter.cut.shared_offset;
    a_ = reinterpret_cast<uint16_t*>(begin);
    b_ = reinterpret_cast<uint16_t*>(begin + adapter.cut.b_offset);
    scaled_ = reinterpret_cast<float*>(begin + adapter.cut.scaled_offset);
    sums_ = scaled_ + kTokens * adapter.padded;
    barriers_ = reinterpret_cast<CopyBarrier*>(sums_ + adapter_sums(kTokens, adapter.cut.rows));
    scaled_value_ = __uint_as_float(kSentinel);
  }

  static constexpr bool kChanges = true;

  // Before the first weights, behind which loads take longer. Publishers ask for what their scales depend on.
  __device__ __forceinline__ void start() {
    if (threadIdx.x == blockDim.x - kWarp) {
      barriers_[0].init(1);
      barriers_[1].init(1);
      fence_barrier_init();
      if (count_ > 0) copy(0, a_, adapter_.a + int64_t{first_row_} * args_.cols, count_ * args_.cols);
    }
    if (!publishes()) return;
    const int token = adapter_.outputs ? adapter_.outputs[my_token()] : my_token(), row = first_row_ + my_row();
    first_use_ = adapter_.streams[token] * adapter_.stream_adapters;
    position_ = adapter_.positions[token];
    adapter_of_row_ = adapter_.adapters[row];
    factor_ = adapter_.factors[row];
  }

  // While activations arrive.
  template <typename Rows>
  __device__ __forceinline__ void prepare(const Rows& rows) {
    if (threadIdx.x == blockDim.x - 2 * kWarp) {
      const int pitch = Rows::kRows * adapter_.columns; // of a row block
      copy(1, b_, adapter_.b + int64_t{rows.first} * pitch, rows.results * pitch);
    }
    if (publishes()) use_ = adapter_.uses[first_use_ + adapter_of_row_];
  }

  __device__ __forceinline__ void add(int t, const float (&x)[8], int column) {
    if (count_ <= 0 || column >= args_.cols) return;
    wait_for_copy(0);
#pragma unroll
    for (int r = 0; r < kMost; ++r)
      if (r < count_) {
        const uint4 halves = *reinterpret_cast<const uint4*>(a_ + int64_t{r} * args_.cols + column);
        const float2 w[4] = {halves_of(halves.x), halves_of(halves.y), halves_of(halves.z), halves_of(halves.w)};
#pragma unroll
        for (int i = 0; i < 4; ++i) sum_[t][r] += w[i].x * x[2 * i] + w[i].y * x[2 * i + 1];
      }
  }
  __device__ __forceinline__ void add(int t, float4 x, int column) {
    if (count_ <= 0) return;
    wait_for_copy(0);
#pragma unroll
    for (int r = 0; r < kMost; ++r)
      if (r < count_) {
        const uint2 halves = *reinterpret_cast<const uint2*>(a_ + int64_t{r} * args_.cols + column);
        const float2 low = halves_of(halves.x), high = halves_of(halves.y);
        sum_[t][r] += low.x * x.x + low.y * x.y + high.x * x.z + high.y * x.w;
      }
  }

  __device__ __forceinline__ void finish() { store_warp_sums(sums_, sum_, count_); }

  // After a barrier: one warp per value.
  __device__ __forceinline__ void publish() const {
    if (!publishes()) return;
    const float sum = add_warp_sums(sums_), scale = position_ >= use_.from ? use_.scale * factor_ : 0;
    if (threadIdx.x % kWarp == 0)
      store_latest(adapter_.sums + my_token() * adapter_.padded + first_row_ + my_row(),
                   scale == 0 ? 0 : scale * sum); // 0 * infinity: NaN
  }

  // Before a warp's last chunks, behind which the load's latency disappears.
  __device__ __forceinline__ void approach_end(int chunks_left) {
    if (chunks_left == 2 && static_cast<int>(threadIdx.x) < kTokens * adapter_.padded)
      scaled_value_ = load_latest(adapter_.sums + threadIdx.x);
  }
  // Before the barrier in front of the epilogue.
  __device__ __forceinline__ void gather() {
    wait_for_copy(1);
#pragma unroll 1
    for (int i = threadIdx.x; i < kTokens * adapter_.padded; i += static_cast<int>(blockDim.x)) {
      while (is_sentinel(scaled_value_)) scaled_value_ = load_latest(adapter_.sums + i);
      scaled_[i] = scaled_value_;
      scaled_value_ = __uint_as_float(kSentinel);
    }
  }

  // A quarter of what the adapters add to segment s in the block's result i: operands, asked for before they are used.
  class Change {
   public:
    __device__ __forceinline__ Change(const AdapterRows& of, int s, int i, int t, int quarter)
        : left_(of.adapter_.ranks[s] / 4 - quarter) {
      const int first = of.adapter_.first[s], of_gate = of.args_.gated ? first : 0;
      b_ = reinterpret_cast<const uint2*>(of.b_ + i * of.adapter_.columns + of_gate) + quarter;
      x_ = reinterpret_cast<const float4*>(of.scaled_ + t * of.adapter_.padded + first) + quarter;
      if (left_ > 0) b_now_ = *b_, x_now_ = *x_;
    }
    __device__ __forceinline__ float sum() {
      float sum = product(b_now_, x_now_);
#pragma unroll 1
      for (int k = 4; k < left_; k += 4) sum += product(b_[k], x_[k]);
      return sum;
    }

   private:
    __device__ __forceinline__ static float product(uint2 b, float4 x) {
      const float2 low = halves_of(b.x), high = halves_of(b.y);
      return low.x * x.x + low.y * x.y + high.x * x.z + high.y * x.w;
    }
    int left_;
    const uint2* b_;
    const float4* x_;
    uint2 b_now_ = {};
    float4 x_now_ = {};
  };

 private:
  // By one thread.
  __device__ __forceinline__ void copy(int barrier, uint16_t* to, const uint16_t* from, int halves) const {
    const BarrierAddress landed(barriers_ + barrier);
    landed.arrive_expecting(2 * halves);
    if (halves > 0) landed.bulk_copy(to, from, 2 * halves);
  }
  __device__ __forceinline__ void wait_for_copy(int barrier) const { BarrierAddress(barriers_ + barrier).wait(0); }

  __device__ __forceinline__ static int my_row() { return threadIdx.x / kWarp % kMost; }
  __device__ __forceinline__ static int my_token() { return threadIdx.x / kWarp / kMost; }
  __device__ __forceinline__ bool publishes() const { return my_token() < kTokens && my_row() < count_; }

  const AdapterArgs& adapter_;
  const MatvecArgs& args_;
  int first_row_, count_;
  uint16_t *a_, *b_;
  float *scaled_, *sums_;
  CopyBarrier* barriers_; // of A's and B's copies
  float sum_[kTokens][kMost] = {};
  int first_use_, position_, adapter_of_row_;
  float factor_, scaled_value_;
  core::AdapterUse use_;
};

} // namespace ridge::kernels::cuda
