#include "kernels/cuda/exchange/sum_mail.h"
#include "kernels/cuda/gemm/prompt_results.cuh"
#include "kernels/cuda/runtime/hopper.cuh"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

constexpr int kConsumers = 2, kProductThreads = (kConsumers + 1) * 128;

// A block computes [128 tokens x kN rows] in steps of 64 columns. One thread copies operands several steps ahead; two
// warpgroups multiply: both on tiles of 256 rows, alternately on tiles of 128 rows, so that one multiplies while the
// other writes results (about 16 steps).
template <int kN>
struct ProductShape {
  static constexpr int kXBytes = kPromptTokens * kTileRowBytes, kWBytes = kN * kTileRowBytes,
                       kStageBytes = kXBytes + kWBytes;
  static constexpr int kStages = 196608 / kStageBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes + 1024;
};

template <int kN, bool kSends>
__global__ void __launch_bounds__(kProductThreads, 1) product_kernel(const __grid_constant__ ProductArgs args) {
#ifdef RIDGE_HAS_WGMMA
  using Shape = ProductShape<kN>;
  constexpr bool kInTurn = kN == 128;
  constexpr int kParts = kInTurn ? 2 : 1, kPartSums = kN / 2;
  extern __shared__ uint8_t dynamic[];
  __shared__ CopyBarrier full[Shape::kStages], empty[Shape::kStages];
  uint8_t* tiles = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const int warpgroup = threadIdx.x / 128, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Shape::kStages; ++s) full[s].init(1), empty[s].init(kInTurn ? 4 : kConsumers * 4);
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
    give_registers<40>();
    if (threadIdx.x != kConsumers * 128) return;
    for (int tile = blockIdx.x; tile < total; tile += gridDim.x) {
      const int64_t of_tokens = int64_t{tile % token_tiles} * Shape::kXBytes;
      const uint8_t* w = args.w + int64_t{tile / token_tiles} * Shape::kWBytes;
      for (int step = 0; step < args.steps; ++step) {
        empty[stage].wait(parity ^ 1);
        const BarrierAddress arrived(&full[stage]);
        arrived.arrive_expecting(Shape::kStageBytes);
        uint8_t* to = tiles + stage * Shape::kStageBytes;
        const int more = step - args.steps + args.more_steps;
        const uint8_t* x = more < 0 ? args.x + int64_t{step} * args.token_rows * kTileRowBytes
                                    : args.more_x + int64_t{more} * args.token_rows * kTileRowBytes;
        arrived.bulk_copy(to, x + of_tokens, Shape::kXBytes);
        arrived.bulk_copy(to + Shape::kXBytes, w + int64_t{step} * args.w_pitch * kTileRowBytes, Shape::kWBytes);
        next_stage();
      }
    }
    return;
  }
  take_registers<232>();
  const int64_t mail_half = kSends ? args.mail.half() : 0;
  // In turn: a warpgroup starts after the other has waited for all of its steps. It thus waits for the next phase of
  // each stage's barrier, never the one after that, which its parity could not distinguish.
  const auto skip_tile = [&] {
    stage += args.steps;
    parity ^= stage / Shape::kStages % 2;
    stage %= Shape::kStages;
  };
  const auto wait_for_turn = [&] { asm volatile("bar.sync %0, 256;" ::"r"(1 + warpgroup) : "memory"); };
  const auto give_turn = [&] { asm volatile("bar.arrive %0, 256;" ::"r"(1 + (warpgroup ^ 1)) : "memory"); };
  if (kInTurn && warpgroup == 1) {
    skip_tile();
    give_turn();
  }
  const int own = kInTurn ? warpgroup : 0, stride = static_cast<int>(gridDim.x) * (kInTurn ? kConsumers : 1);
  for (int tile = static_cast<int>(blockIdx.x + own * gridDim.x); tile < total; tile += stride) {
    const int token = tile % token_tiles * kPromptTokens, column = tile / token_tiles * kN;
    float sum[kParts][kPartSums];
    int last_stage = 0;
    prefetch_residual<kN, kInTurn ? 128 : 256>(args, column, token, threadIdx.x % (kInTurn ? 128 : 256));
    if (kInTurn) wait_for_turn();
    for (int step = 0; step < args.steps; ++step) {
      full[stage].wait(parity);
      const uint8_t* at = tiles + stage * Shape::kStageBytes;
      const uint64_t w = tile_descriptor(at + Shape::kXBytes);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const uint64_t x = tile_descriptor(at + (kInTurn ? part : warpgroup) * 64 * kTileRowBytes);
          wgmma(sum[part], x + 2 * k, w + 2 * k, step > 0 || k > 0);
        }
      wgmma_commit();
      if (step > 0) {
        wgmma_wait<1>();
        if (lane == 0) empty[last_stage].arrive();
      }
      last_stage = stage;
      next_stage();
    }
    if (kInTurn && tile + static_cast<int>(gridDim.x) < total) give_turn();
    wgmma_wait<0>();
    if (lane == 0) empty[last_stage].arrive();
    if (kInTurn) skip_tile();
#pragma unroll 1
    for (int slice = 0; slice < kParts * kPartSums / kSliceSums; ++slice) {
      // Every slice passes through the first sums, so that the same instructions write all of them.
      float first[kSliceSums];
#pragma unroll
      for (int i = 0; i < kSliceSums; ++i) first[i] = sum[0][i];
#pragma unroll
      for (int i = 0; i + kSliceSums < kParts * kPartSums; ++i)
        sum[i / kPartSums][i % kPartSums] = sum[(i + kSliceSums) / kPartSums][(i + kSliceSums) % kPartSums];
      const int part = kInTurn ? slice * kSliceColumns / kN : warpgroup;
      const LaneResults results(args, first, column + slice * kSliceColumns % kN, token + part * 64 + warp * 16, lane);
      if constexpr (kSends)
        results.send(mail_half);
      else
        results.write();
    }
  }
#endif
}

template <int kN, bool kSends = false>
void launch_product(const Launch& launch, const ProductArgs& args) {
  constexpr int kShared = ProductShape<kN>::kSharedBytes;
  allow_dynamic_shared_memory(product_kernel<kN, kSends>, kShared);
  const int tiles = args.token_rows / kPromptTokens * (args.w_rows / kN);
  launch(product_kernel<kN, kSends>, std::min(tiles, launch.sm_count), kProductThreads, kShared, args);
}

} // namespace

bool can_multiply_prompts(const Launch& launch) {
  if (launch.shared_per_block < ProductShape<256>::kSharedBytes) return false;
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, product_kernel<256, false>) != cudaSuccess) return false;
  return attributes.sharedSizeBytes > 0; // the barriers: without wgmma the kernel is empty
}

PromptScratch::PromptScratch(int64_t cols, int64_t kept_bytes) : may_keep_bytes_(kept_bytes) {
  for (DeviceMemory& buffer : buffer_) buffer = DeviceMemory(expanded_bytes(cols), "decoded weights");
}

PromptScratch::Kept* PromptScratch::keep(const KeptKey& key) {
  constexpr size_t kLeftFree = size_t{16} << 30; // for whatever else uses the GPU
  if (const auto found = kept_.find(key); found != kept_.end()) return &found->second;
  if (key.bytes > may_keep_bytes_) return nullptr;
  size_t free = 0, all = 0;
  RIDGE_CUDA(cudaMemGetInfo(&free, &all));
  if (free < kLeftFree + key.bytes) {
    may_keep_bytes_ = 0;
    return nullptr;
  }
  may_keep_bytes_ -= key.bytes;
  Kept& kept = kept_[key];
  kept.operand = DeviceMemory(key.bytes, "decoded weights");
  return &kept;
}

class PromptProduct {
 public:
  PromptProduct(const Launch& launch, std::span<const PromptMatrices> matrices, const PromptResult& result,
                PromptScratch& scratch, const SumMail& mail = {})
      : launch_(launch), matrices_(matrices), gated_(result.gated), stride_(gated_ ? 2 : 1), scratch_(scratch) {
    const GemmArgs& input = matrices[0].args;
    product_.x = reinterpret_cast<const uint8_t*>(input.x);
    product_.exponent = input.exponent;
    product_.tokens = input.tokens;
    product_.token_rows = static_cast<int>(core::round_up(input.tokens, kPromptTokens));
    product_.more_x = reinterpret_cast<const uint8_t*>(result.adapted_x);
    product_.more_steps = static_cast<int>(tiles_of(result.adapted_columns));
    product_.steps = static_cast<int>(tiles_of(input.cols)) + product_.more_steps;
    product_.log2_largest = result.log2_largest;
    product_.gated = gated_;
    product_.activated = !gated_ && result.glu;
    product_.glu = result.glu.value_or(FusedGlu{});
    product_.half = result.half;
    std::ranges::copy(result.bounds, product_.bounds);
    product_.mail = mail;
    const bool wide = !sends() && rounds(rows_of_all(256), 256) <= rounds(rows_of_all(128), 128);
    product_.tile_rows = wide ? 256 : 128;
    const int64_t all_rows = rows_of_all(product_.tile_rows);
    kept_ = scratch.keep({input.segment[0].weights, all_rows * bytes_per_row(), product_.tile_rows});
    product_.w_pitch = static_cast<int>(kept_ ? all_rows : rows_per_pass());
    uses_second_stream_ = !kept_ && product_.w_pitch * bytes_per_row() >= kLargeBytes;
  }

  void run() {
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const PromptMatrices& m = matrices_[i];
      int s = 0, done = 0;
      while (s < segments_of(m.args)) {
        if (product_.w_rows == 0) begin_pass();
        if (decoded_.segments == 0) begin_decoding(m.args);
        do {
          const int rows = std::min(m.args.segment[s].rows - done, (product_.w_pitch - product_.w_rows) / stride_);
          add(m, s, done, rows);
          done += rows;
          if (done == m.args.segment[s].rows) ++s, done = 0;
        } while (s < segments_of(m.args) && product_.w_rows < product_.w_pitch);
        const bool ends = product_.w_rows == product_.w_pitch;
        if (ends || s < segments_of(m.args) || !decodes_with(i + 1, m)) decode(m);
        if (ends) finish_pass();
      }
    }
    if (product_.w_rows > 0) finish_pass();
  }

 private:
  // Decoded bytes from which the second stream pays off: synchronizing costs about 15 µs.
  static constexpr int64_t kLargeBytes = 24 << 20;

  bool sends() const { return product_.mail.ranks > 0; }
  int segments_of(const GemmArgs& args) const { return gated_ ? 1 : args.segments; }
  int64_t bytes_per_row() const { return int64_t{product_.steps} * kTileRowBytes; }
  int64_t padded(int64_t rows) const { return core::round_up(stride_ * rows, product_.tile_rows); }

  int64_t rows_of_all(int64_t tile_rows) const {
    int64_t total = 0;
    for (const PromptMatrices& m : matrices_)
      for (int s = 0; s < segments_of(m.args); ++s)
        total += core::round_up(int64_t{stride_} * m.args.segment[s].rows, tile_rows);
    return total;
  }

  // In rounds of all multiprocessors times columns. Wide tiles read fewer bytes per product; narrow ones may fill the
  // last round better and overlap writing.
  double rounds(int64_t rows, int width) const {
    constexpr double kResultSteps = 16, kNarrow = 1.1;
    const int64_t tiles = product_.token_rows / kPromptTokens * (rows / width);
    const auto full = static_cast<double>((tiles + launch_.sm_count - 1) / launch_.sm_count);
    const double steps = product_.steps;
    const double all =
        width == 256 ? full * (steps + kResultSteps) : full * std::max(kNarrow * steps, kResultSteps) + kResultSteps;
    return all * width / steps;
  }

  int64_t rows_per_pass() const {
    const int64_t tile = product_.tile_rows;
    const int64_t total = rows_of_all(tile);
    const int64_t room = std::min(scratch_.buffer_bytes() / bytes_per_row() / kRowsAtOnce * kRowsAtOnce, total);
    const auto cost = [&](int64_t rows) { return rounds(rows, product_.tile_rows); };
    constexpr double kPassCost = 16;
    int64_t best = room;
    double best_cost = 0;
    for (int64_t rows = room; rows >= room / 2 && rows > 0; rows -= kRowsAtOnce) {
      const int64_t passes = total / rows, rest = total % rows;
      const double all = static_cast<double>(passes) * (cost(rows) + kPassCost) + (rest ? cost(rest) + kPassCost : 0);
      if (rows == room || all < best_cost) best = rows, best_cost = all;
    }
    return best;
  }

  Event& multiplied() { return scratch_.multiplied_[scratch_.next_]; }

  uint8_t* operand() const { return (kept_ ? kept_->operand : scratch_.buffer_[scratch_.next_]).as(); }

  void begin_pass() {
    product_.w = operand();
    if (!uses_second_stream_) return;
    if (std::exchange(scratch_.in_launch_stream_[scratch_.next_], false))
      RIDGE_CUDA(cudaEventRecord(multiplied().handle, launch_.stream)); // after the buffer's last reader
    RIDGE_CUDA(cudaStreamWaitEvent(scratch_.stream_.handle, multiplied().handle));
  }

  void begin_decoding(const GemmArgs& args) {
    decoded_.cols = args.cols;
    decoded_.stride = stride_;
    decoded_.row_bytes = args.row_bytes;
    decoded_.out = operand();
    decoded_.out_rows = product_.w_pitch;
  }

  bool decodes_with(size_t next, const PromptMatrices& m) const {
    return next < matrices_.size() && matrices_[next].expand == m.expand &&
           matrices_[next].args.row_bytes == m.args.row_bytes;
  }

  void decode(const PromptMatrices& m) {
    if (kept_ && kept_->is_decoded) {
      decoded_ = {};
      adapted_ = {};
      return;
    }
    Launch decoding = launch_;
    if (uses_second_stream_) decoding.stream = scratch_.stream_.handle, decoding.overlap = false;
    m.expand(decoding, decoded_);
    if (product_.more_steps > 0) {
      adapted_.stride = decoded_.stride;
      adapted_.out = decoded_.out + tiles_of(decoded_.cols) * decoded_.out_rows * kTileRowBytes;
      adapted_.out_rows = decoded_.out_rows;
      adapted_.tiles = product_.more_steps;
      launch_prompt_adapter_weights(decoding, adapted_);
    }
    decoded_ = {};
    adapted_ = {};
  }

  PromptAdapterRows adapted_rows(const PromptAdapter* adapter, int s, int first, int rows, int to) const {
    if (!adapter) return {nullptr, 0, rows, to, 0, 0};
    const AdapterArgs& args = adapter->args;
    return {args.b + (adapter->first_row[s] + first) * args.columns + (gated_ ? args.first[s] : 0),
            args.columns,
            rows,
            to,
            adapter->first_column + args.first[s],
            args.ranks[s]};
  }

  void add(const PromptMatrices& m, int s, int first, int rows) {
    const GemmArgs& args = m.args;
    const GemmSegment& segment = args.segment[s];
    const auto slice = [&](const float* vector) { return vector ? vector + first : nullptr; };
    product_.segment[product_.segments++] = {rows,
                                             first,
                                             segment.out + first,
                                             segment.rows,
                                             slice(segment.bias),
                                             gated_ ? slice(args.segment[1].bias) : nullptr,
                                             s == 0 ? slice(args.residual) : nullptr};
    for (int k = 0; k < stride_; ++k) {
      decoded_.segment[decoded_.segments++] = {args.segment[s + k].weights + first * args.row_bytes, rows,
                                               product_.w_rows + k};
      adapted_.segment[adapted_.segments++] = adapted_rows(m.adapter, s + k, first, rows, product_.w_rows + k);
    }
    product_.w_rows += static_cast<int>(padded(rows));
  }

  void finish_pass() {
    const int buffer = scratch_.next_;
    if (uses_second_stream_) {
      RIDGE_CUDA(cudaEventRecord(scratch_.decoded_[buffer].handle, scratch_.stream_.handle));
      RIDGE_CUDA(cudaStreamWaitEvent(launch_.stream, scratch_.decoded_[buffer].handle));
    }
    if (sends())
      launch_product<128, true>(launch_, product_);
    else
      product_.tile_rows == 256 ? launch_product<256>(launch_, product_) : launch_product<128>(launch_, product_);
    product_.segments = product_.w_rows = 0;
    if (kept_) {
      kept_->is_decoded = true;
      return;
    }
    if (uses_second_stream_)
      RIDGE_CUDA(cudaEventRecord(scratch_.multiplied_[buffer].handle, launch_.stream));
    else
      scratch_.in_launch_stream_[buffer] = true;
    scratch_.next_ ^= 1;
  }

  const Launch& launch_;
  std::span<const PromptMatrices> matrices_;
  bool gated_;
  int stride_; // rows of W per row of the result
  PromptScratch& scratch_;
  PromptScratch::Kept* kept_ = nullptr;
  bool uses_second_stream_ = true; // decodes in the second stream
  ExpandArgs decoded_ = {};
  PromptAdapterWeights adapted_ = {};
  ProductArgs product_ = {};
};

void launch_prompt_product(const Launch& launch, std::span<const PromptMatrices> matrices, const PromptResult& result,
                           PromptScratch& scratch) {
  PromptProduct(launch, matrices, result, scratch).run();
}

void launch_prompt_product(const Launch& launch, const PromptMatrices& matrix, PromptScratch& scratch,
                           const SumMail& mail) {
  PromptProduct(launch, {&matrix, 1}, {}, scratch, mail).run();
}

} // namespace ridge::kernels::cuda
