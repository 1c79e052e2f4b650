#include "kernels/cuda/gemm/prompt_exchange.h"

#include "core/host_device/round_up.h"
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/gemm/hopper.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kConsumers = 2, kProductThreads = kConsumers * 128 + kWarp;

struct ProductSegment {
  int rows; // of out
  float* out;
  int64_t out_stride;
  const float *bias, *up_bias;
  const float* residual; // as out
};

struct ProductArgs {
  const uint8_t *x, *w;
  const int8_t* exponent;
  int tokens, token_rows;
  int w_rows, w_pitch; // rows of W that are there, and from one column tile to the next
  int steps;           // of 64 columns
  bool gated;          // even rows of w are gates, odd ones up
  FusedGlu glu;
  int segments;
  ProductSegment segment[kMostSegments];
};

// A block makes tiles of [128 tokens x kN rows], each in steps of 64 columns. One thread brings the operands of several
// steps ahead into shared memory; two warpgroups multiply, 64 tokens each.
template <int kN>
struct ProductShape {
  static constexpr int kXBytes = kPromptTokens * kTileRowBytes, kWBytes = kN * kTileRowBytes,
                       kStageBytes = kXBytes + kWBytes;
  static constexpr int kStages = 196608 / kStageBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes + 1024;
};

// Compiled as if for 384 threads, which leaves a quarter of the registers to the blocks that decode weights at the same
// time.
template <int kN>
__global__ void __launch_bounds__(384, 1) product_kernel(const __grid_constant__ ProductArgs args) {
#ifdef RIDGE_HAS_WGMMA
  using Shape = ProductShape<kN>;
  extern __shared__ uint8_t dynamic[];
  __shared__ CopyBarrier full[Shape::kStages], empty[Shape::kStages];
  uint8_t* tiles = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const int warpgroup = threadIdx.x / 128, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Shape::kStages; ++s) full[s].init(1), empty[s].init(kConsumers * 4);
    fence_barrier_init();
  }
  __syncthreads();
  let_successor_start();
  wait_for_predecessor();
  const int token_tiles = args.token_rows / kPromptTokens;
  const int total = token_tiles * (args.w_rows / kN);
  int stage = 0, parity = 0;
  const auto next_stage = [&] {
    if (++stage == Shape::kStages) stage = 0, parity ^= 1;
  };
  if (warpgroup == kConsumers) {
    if (lane != 0) return;
    for (int tile = blockIdx.x; tile < total; tile += gridDim.x) {
      const uint8_t* x = args.x + int64_t{tile % token_tiles} * Shape::kXBytes;
      const uint8_t* w = args.w + int64_t{tile / token_tiles} * Shape::kWBytes;
      for (int step = 0; step < args.steps; ++step) {
        empty[stage].wait(parity ^ 1);
        const BarrierAddress arrived(&full[stage]);
        arrived.arrive_expecting(Shape::kStageBytes);
        uint8_t* to = tiles + stage * Shape::kStageBytes;
        arrived.bulk_copy(to, x + int64_t{step} * args.token_rows * kTileRowBytes, Shape::kXBytes);
        arrived.bulk_copy(to + Shape::kXBytes, w + int64_t{step} * args.w_pitch * kTileRowBytes, Shape::kWBytes);
        next_stage();
      }
    }
    return;
  }
  for (int tile = blockIdx.x; tile < total; tile += gridDim.x) {
    float sum[kN / 2];
    int last_stage = 0;
    for (int step = 0; step < args.steps; ++step) {
      full[stage].wait(parity);
      const uint8_t* at = tiles + stage * Shape::kStageBytes;
      const uint64_t x = tile_descriptor(at + warpgroup * 64 * kTileRowBytes), w = tile_descriptor(at + Shape::kXBytes);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma(sum, x + 2 * k, w + 2 * k, step > 0 || k > 0);
      wgmma_commit();
      if (step > 0) {
        wgmma_wait<1>();
        if (lane == 0) empty[last_stage].arrive();
      }
      last_stage = stage;
      next_stage();
    }
    wgmma_wait<0>();
    if (lane == 0) empty[last_stage].arrive();

    int column = tile / token_tiles * kN, s = 0;
    const auto padded = [&](int rows) {
      return ((args.gated ? 2 * rows : rows) + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
    };
    while (column >= padded(args.segment[s].rows)) column -= padded(args.segment[s++].rows);
    const ProductSegment& segment = args.segment[s];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = tile % token_tiles * kPromptTokens + warpgroup * 64 + warp * 16 + lane / 4 + 8 * half;
      if (token >= args.tokens) continue;
      const float scale = exp2f(static_cast<float>(args.exponent[token] - kWeightExponent));
      float* out = segment.out + token * segment.out_stride;
      const float* residual = segment.residual ? segment.residual + token * segment.out_stride : nullptr;
      const bool pairs = segment.out_stride % 2 == 0 && reinterpret_cast<uintptr_t>(segment.out) % 8 == 0;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        float2 v = {sum[4 * j + 2 * half] * scale, sum[4 * j + 2 * half + 1] * scale};
        int row = column + 8 * j + lane % 4 * 2;
        if (args.gated) {
          row /= 2;
          if (row >= segment.rows) continue;
          if (segment.bias) v.x += segment.bias[row];
          if (segment.up_bias) v.y += segment.up_bias[row];
          out[row] = args.glu(v.x, v.y);
          continue;
        }
        if (pairs && row + 1 < segment.rows && !segment.bias) {
          if (residual) {
            const float2 r = *reinterpret_cast<const float2*>(residual + row);
            v.x += r.x, v.y += r.y;
          }
          *reinterpret_cast<float2*>(out + row) = v;
          continue;
        }
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (row + i < segment.rows)
            out[row + i] =
                (i ? v.y : v.x) + (segment.bias ? segment.bias[row + i] : 0) + (residual ? residual[row + i] : 0);
      }
    }
  }
#endif
}

template <int kN>
void launch_product(const Launch& launch, const ProductArgs& args) {
  using Shape = ProductShape<kN>;
  allow_shared(product_kernel<kN>, Shape::kSharedBytes);
  const int tiles = args.token_rows / kPromptTokens * (args.w_rows / kN);
  launch(product_kernel<kN>, std::min(tiles, launch.sm_count), kProductThreads, Shape::kSharedBytes, args);
}

} // namespace

bool can_multiply_prompts(const Launch& launch) {
  if (launch.shared_per_block < ProductShape<256>::kSharedBytes) return false;
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, product_kernel<256>) != cudaSuccess) return false;
  return attributes.sharedSizeBytes > 0; // the barriers: the kernel is empty where there is no wgmma
}

PromptScratch::PromptScratch(int64_t cols) {
  for (DeviceMemory& buffer : buffer_) buffer = DeviceMemory(expanded_bytes(cols), "decoded weights");
}

// One call of launch_prompt_product: passes over as many rows as a buffer takes.
class PromptProduct {
 public:
  PromptProduct(const Launch& launch, std::span<const PromptMatrices> matrices, const std::optional<FusedGlu>& glu,
                PromptScratch& scratch, const PartExchange* exchange = nullptr)
      : launch_(launch), matrices_(matrices), gated_(glu.has_value()), stride_(gated_ ? 2 : 1), scratch_(scratch),
        exchange_(exchange) {
    const GemmArgs& input = matrices[0].args;
    product_.x = reinterpret_cast<const uint8_t*>(input.x);
    product_.exponent = input.exponent;
    product_.tokens = input.tokens;
    product_.token_rows = static_cast<int>(core::round_up(input.tokens, kPromptTokens));
    product_.steps = static_cast<int>(tiles_of(input.cols));
    product_.gated = gated_;
    product_.glu = glu.value_or(FusedGlu{});
    product_.w_pitch = static_cast<int>(rows_per_pass());
  }

  void run() {
    for (const PromptMatrices& m : matrices_) {
      int s = 0, done = 0; // rows of segment s that are done
      while (s < segments_of(m.args)) {
        if (product_.w_rows == 0) begin_pass();
        ExpandArgs from = {};
        from.cols = m.args.cols;
        from.stride = stride_;
        from.row_bytes = m.args.row_bytes;
        from.out = scratch_.buffer_[scratch_.next_].as();
        from.out_rows = product_.w_pitch;
        const auto part_ends = [&] { return exchange_ && done % kPartColumns == 0; };
        do {
          int rows = std::min(m.args.segment[s].rows - done, (product_.w_pitch - product_.w_rows) / stride_);
          if (exchange_) rows = std::min(rows, static_cast<int>(kPartColumns) - done % static_cast<int>(kPartColumns));
          add(m.args, s, done, rows, from);
          done += rows;
          if (done == m.args.segment[s].rows) ++s, done = 0;
        } while (s < segments_of(m.args) && product_.w_rows < product_.w_pitch && !part_ends());
        Launch decoding = launch_;
        decoding.stream = scratch_.stream_.handle;
        decoding.overlap = false;
        m.expand(decoding, from);
        if (product_.w_rows == product_.w_pitch || part_ends()) finish_pass();
        if (part_ends()) exchange_part(s < segments_of(m.args) ? done : m.args.segment[0].rows);
      }
    }
    if (product_.w_rows > 0) finish_pass();
    if (!exchange_) return;
    RIDGE_CUDA(cudaEventRecord(exchange_->beside.done.handle, exchange_->beside.stream.handle));
    RIDGE_CUDA(cudaStreamWaitEvent(launch_.stream, exchange_->beside.done.handle));
  }

 private:
  int segments_of(const GemmArgs& args) const { return gated_ ? 1 : args.segments; }

  // How long a product with so many rows of W takes, in rounds of all multiprocessors times columns; and whether tiles
  // are wide, which reads fewer bytes per product, where narrow ones may fill the last round better.
  double rounds(int64_t rows, int width) const {
    const int64_t tiles = product_.token_rows / kPromptTokens * (rows / width);
    return static_cast<double>((tiles + launch_.sm_count - 1) / launch_.sm_count) * width * (width == 256 ? 1 : 1.15);
  }
  bool wide(int64_t rows) const { return rounds(rows, 256) <= rounds(rows, 128); }

  int64_t rows_per_pass() const {
    int64_t total = 0;
    for (const PromptMatrices& m : matrices_)
      for (int s = 0; s < segments_of(m.args); ++s)
        total += core::round_up(int64_t{stride_} * m.args.segment[s].rows, kRowsAtOnce);
    if (exchange_) total = std::min(total, kPartColumns);
    const int64_t room = std::min(
        scratch_.buffer_bytes() / (int64_t{product_.steps} * kTileRowBytes) / kRowsAtOnce * kRowsAtOnce, total);
    const auto cost = [&](int64_t rows) { return std::min(rounds(rows, 256), rounds(rows, 128)); };
    constexpr double kPassCost = 16; // of a launch more
    int64_t best = room;
    double best_cost = 0;
    for (int64_t rows = room; rows >= room / 2 && rows > 0; rows -= kRowsAtOnce) {
      const int64_t passes = total / rows, rest = total % rows;
      const double all = static_cast<double>(passes) * (cost(rows) + kPassCost) + (rest ? cost(rest) + kPassCost : 0);
      if (rows == room || all < best_cost) best = rows, best_cost = all;
    }
    return best;
  }

  void begin_pass() {
    const int buffer = scratch_.next_;
    RIDGE_CUDA(cudaStreamWaitEvent(scratch_.stream_.handle, scratch_.multiplied_[buffer].handle));
    product_.w = scratch_.buffer_[buffer].as();
  }

  // `rows` rows of a segment, from row `first`, come behind what this pass has.
  void add(const GemmArgs& args, int s, int first, int rows, ExpandArgs& from) {
    const GemmSegment& segment = args.segment[s];
    const auto slice = [&](const float* vector) { return vector ? vector + first : nullptr; };
    product_.segment[product_.segments++] = {rows,
                                             segment.out + first,
                                             segment.rows,
                                             slice(segment.bias),
                                             gated_ ? slice(args.segment[1].bias) : nullptr,
                                             s == 0 ? slice(args.residual) : nullptr};
    for (int k = 0; k < stride_; ++k)
      from.segment[from.segments++] = {args.segment[s + k].weights + first * args.row_bytes, rows, product_.w_rows + k};
    product_.w_rows += static_cast<int>(core::round_up(int64_t{stride_} * rows, kRowsAtOnce));
  }

  void finish_pass() {
    const int buffer = scratch_.next_;
    RIDGE_CUDA(cudaEventRecord(scratch_.decoded_[buffer].handle, scratch_.stream_.handle));
    RIDGE_CUDA(cudaStreamWaitEvent(launch_.stream, scratch_.decoded_[buffer].handle));
    wide(product_.w_rows) ? launch_product<256>(launch_, product_) : launch_product<128>(launch_, product_);
    RIDGE_CUDA(cudaEventRecord(scratch_.multiplied_[buffer].handle, launch_.stream));
    scratch_.next_ ^= 1;
    product_.segments = product_.w_rows = 0;
  }

  // Behind the last pass, when columns up to `made` are there.
  void exchange_part(int made) {
    Launch beside = launch_;
    beside.stream = exchange_->beside.stream.handle;
    beside.overlap = false;
    RIDGE_CUDA(cudaStreamWaitEvent(beside.stream, scratch_.multiplied_[scratch_.next_ ^ 1].handle));
    exchange_->launch(beside, exchanged_, made - exchanged_);
    exchanged_ = made;
  }

  const Launch& launch_;
  std::span<const PromptMatrices> matrices_;
  bool gated_;
  int stride_; // rows of W per row of the result
  PromptScratch& scratch_;
  const PartExchange* exchange_; // or null
  int exchanged_ = 0;            // columns
  ProductArgs product_ = {};
};

void launch_prompt_product(const Launch& launch, std::span<const PromptMatrices> matrices,
                           const std::optional<FusedGlu>& glu, PromptScratch& scratch) {
  PromptProduct(launch, matrices, glu, scratch).run();
}

void launch_prompt_product(const Launch& launch, const PromptMatrices& matrix, PromptScratch& scratch,
                           const PartExchange& exchange) {
  PromptProduct(launch, {&matrix, 1}, std::nullopt, scratch, &exchange).run();
}

} // namespace ridge::kernels::cuda
