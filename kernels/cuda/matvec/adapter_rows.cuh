// LoRA adapters in a product's kernel: W x + B (scale * (A x)), without a launch of their own.
//
// The first blocks, which have the fewest row blocks of W, also multiply up to kMaxAdapterRows rows of A each, while x
// is staged. They store scale * (A x) in global memory, where all blocks of the kernel find them (dataflow sync) before
// they add up their results; meanwhile W is multiplied. Blocks wait only for blocks that start no later than they do.
// Bulk copies bring the rows of A and of B into shared memory.
//
// With a norm, rows of A hold its weights, and 1/rms is applied with W's.
#pragma once

#include "core/program.h"
#include "kernels/cuda/matvec/beside.cuh"
#include "kernels/cuda/matvec/weight_ring.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

template <int kTokens>
class AdapterRows : public NothingBeside {
 public:
  // `turn`: 0 for the block that starts first.
  __device__ __forceinline__ AdapterRows(const AdapterArgs& adapter, const MatvecArgs& args, int turn)
      : adapter_(adapter), args_(args), first_row_(turn * adapter.cut.rows),
        count_(min(adapter.cut.rows, adapter.rank - first_row_)) {
    extern __shared__ uint4 shared[];
    uint8_t* begin = reinterpret_cast<uint8_t*>(shared) + adapter.cut.shared_offset;
    a_ = reinterpret_cast<uint16_t*>(begin);
    b_ = reinterpret_cast<uint16_t*>(begin + adapter.cut.b_offset);
    scaled_ = reinterpret_cast<float*>(begin + adapter.cut.scaled_offset);
    sums_ = scaled_ + kTokens * adapter.padded_rank;
    places_ = reinterpret_cast<int*>(sums_ + adapter_sums(kTokens, adapter.cut.rows));
    scaled_value_ = __uint_as_float(kSentinel);
  }

  static constexpr bool kChanges = true;

  __device__ __forceinline__ void start() {
    if (threadIdx.x > 0) return;
    reinterpret_cast<CopyBarrier*>(places_ + kMaxSegments)->init(1);
    fence_barrier_init();
  }

  // While activations arrive: one warp starts the copies, each publisher finds its scale.
  template <typename Rows>
  __device__ __forceinline__ void prepare(const Rows& rows) {
    if (threadIdx.x == kMatvecThreads - kWarp) fetch(rows);
    __syncwarp(); // before the warp's other lanes wait for the copies
    if (count_ <= 0 || !is_publisher() || threadIdx.x % kWarp > 0) return;
    const auto [s, r] = row_of_a(first_row_ + my_row());
    const AdapterSegment& segment = adapter_.segment[s];
    const int token = adapter_.outputs ? adapter_.outputs[my_token()] : my_token();
    const core::AdapterUse use = adapter_.uses[adapter_.streams[token] * adapter_.adapters + segment.adapters[r]];
    if (use.scale != 0 && adapter_.positions[token] >= use.from) scale_ = use.scale * segment.factors[r];
  }

  __device__ __forceinline__ void add(int t, const float (&x)[8], int column) {
    if (count_ <= 0 || column >= args_.cols) return;
    wait_for_copies();
#pragma unroll
    for (int r = 0; r < kMaxAdapterRows; ++r)
      if (r < count_) {
        const uint4 halves = *reinterpret_cast<const uint4*>(a_ + int64_t{r} * args_.cols + column);
        const float2 w[4] = {halves_of(halves.x), halves_of(halves.y), halves_of(halves.z), halves_of(halves.w)};
#pragma unroll
        for (int i = 0; i < 4; ++i) sum_[t][r] += w[i].x * x[2 * i] + w[i].y * x[2 * i + 1];
      }
  }
  __device__ __forceinline__ void add(int t, float4 x, int column) {
    if (count_ <= 0) return;
    wait_for_copies();
#pragma unroll
    for (int r = 0; r < kMaxAdapterRows; ++r)
      if (r < count_) {
        const uint2 halves = *reinterpret_cast<const uint2*>(a_ + int64_t{r} * args_.cols + column);
        const float2 low = halves_of(halves.x), high = halves_of(halves.y);
        sum_[t][r] += low.x * x.x + low.y * x.y + high.x * x.z + high.y * x.w;
      }
  }

  __device__ __forceinline__ void finish() { store_warp_sums(sums_, sum_, count_); }

  // After a barrier: one warp per value.
  __device__ __forceinline__ void publish() const {
    if (count_ <= 0 || !is_publisher()) return;
    const float sum = add_warp_sums(sums_);
    if (threadIdx.x % kWarp > 0) return;
    const auto [s, r] = row_of_a(first_row_ + my_row());
    const AdapterSegment& segment = adapter_.segment[s];
    store_latest(segment.sums + my_token() * segment.rank + r, scale_ == 0 ? 0 : scale_ * sum); // 0 * infinity: NaN
  }

  // Before a warp's last chunks, behind which the load's latency disappears.
  __device__ __forceinline__ void approach_end(int chunks_left) {
    if (chunks_left == 2) scaled_value_ = load_scaled(threadIdx.x);
  }
  // Before the barrier in front of the epilogue.
  __device__ __forceinline__ void gather() {
    wait_for_copies();
    for (int i = threadIdx.x; i < kTokens * adapter_.padded_rank; i += static_cast<int>(blockDim.x)) {
      float v = i == static_cast<int>(threadIdx.x) ? scaled_value_ : load_scaled(i);
      while (is_sentinel(v)) v = load_scaled(i);
      scaled_[i] = v;
    }
  }

  // A quarter of what the adapters add to a row of segment s.
  __device__ __forceinline__ float change(int s, int row, int t, int quarter) const {
    const AdapterSegment& segment = adapter_.segment[s];
    const auto* b = reinterpret_cast<const uint32_t*>(b_ + places_[s] + row * segment.padded_rank);
    const auto* x = reinterpret_cast<const float2*>(scaled_ + t * adapter_.padded_rank + segment.first);
    float sum = 0;
#pragma unroll 1
    for (int i = quarter; i < segment.padded_rank / 2; i += 4) {
      const float2 w = halves_of(b[i]), v = x[i];
      sum += w.x * v.x + w.y * v.y;
    }
    return sum;
  }

 private:
  struct Place {
    int segment, row;
  };
  __device__ __forceinline__ Place row_of_a(int row) const {
    int s = 0;
    while (row >= adapter_.segment[s].rank) row -= adapter_.segment[s++].rank;
    return {s, row};
  }
  __device__ __forceinline__ uint32_t b_row_bytes(int s) const { return adapter_.segment[s].padded_rank * 2; }

  template <typename Rows>
  __device__ __forceinline__ void fetch(const Rows& rows) const {
    const BarrierAddress copies(places_ + kMaxSegments);
    const auto row_bytes = static_cast<uint32_t>(args_.cols) * 2;
    uint32_t bytes = max(count_, 0) * row_bytes;
    visit_b(rows, [&](int s, int, int count) { bytes += count * b_row_bytes(s); });
    copies.arrive_expecting(bytes);
    for (int r = 0; r < count_; ++r) {
      const auto [segment, row] = row_of_a(first_row_ + r);
      copies.bulk_copy(a_ + int64_t{r} * args_.cols, adapter_.segment[segment].a + int64_t{row} * args_.cols,
                       row_bytes);
    }
    int at = 0;
    visit_b(rows, [&](int s, int first, int count) {
      const int pitch = adapter_.segment[s].padded_rank;
      places_[s] = at - first * pitch;
      if (count * pitch > 0)
        copies.bulk_copy(b_ + at, adapter_.segment[s].b + int64_t{first} * pitch, count * b_row_bytes(s));
      at += count * pitch;
    });
  }

  // visit(segment, first row, rows): the block's results.
  template <typename Rows, typename Visit>
  __device__ __forceinline__ void visit_b(const Rows& rows, const Visit& visit) const {
    int before = 0; // row blocks
#pragma unroll 1
    for (int s = 0; s < args_.segments; ++s) {
      const MatvecSegment& segment = args_.segment[s];
      const int begin = max(rows.first - before, 0), end = min(rows.first + rows.results - before, segment.row_blocks);
      if (begin < end) visit(s, begin * Rows::kRows, min(end * Rows::kRows, segment.rows) - begin * Rows::kRows);
      if (!args_.gated) before += segment.row_blocks;
    }
  }

  __device__ __forceinline__ static int my_row() { return threadIdx.x / kWarp % kMaxAdapterRows; }
  __device__ __forceinline__ static int my_token() { return threadIdx.x / kWarp / kMaxAdapterRows; }
  __device__ __forceinline__ bool is_publisher() const {
    return my_token() < min(kTokens, args_.tokens) && my_row() < count_;
  }
  __device__ __forceinline__ void wait_for_copies() const { BarrierAddress(places_ + kMaxSegments).wait(0); }

  // `i` counts [tokens][padded ranks of all segments]. Returns 0 in the padding.
  __device__ __forceinline__ float load_scaled(int i) const {
    int t = 0;
    if (kTokens > 1 && i >= adapter_.padded_rank) i -= adapter_.padded_rank, t = 1;
    if (t >= args_.tokens) return 0;
    for (const AdapterSegment& segment : adapter_.segment)
      if (const int r = i - segment.first; r >= 0 && r < segment.padded_rank)
        return r < segment.rank ? load_latest(segment.sums + t * segment.rank + r) : 0;
    return 0;
  }

  const AdapterArgs& adapter_;
  const MatvecArgs& args_;
  int first_row_, count_;
  uint16_t *a_, *b_;
  float *scaled_, *sums_;
  int* places_;
  float sum_[kTokens][kMaxAdapterRows] = {};
  float scale_ = 0, scaled_value_;
};

} // namespace ridge::kernels::cuda
