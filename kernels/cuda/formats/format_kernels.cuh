// The launchers of one format; CMake generates a source file per format.
#pragma once

#include "core/host_device/round_up.h"
#include "kernels/cuda/formats/adapted_launchers.cuh"
#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/gemm/expand.cuh"
#include "kernels/cuda/gemm/gemm.cuh"
#include "kernels/cuda/gemm/integer_product.cuh"
#include "kernels/cuda/matvec/matvec.cuh"
#include "kernels/cuda/small_batch/batch.cuh"
#include "kernels/cuda/small_batch/expert_dots.cuh"
#include "kernels/cuda/small_batch/wide_batch.cuh"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ridge::kernels::cuda {

inline constexpr int kRowThreads = 256;

// To contiguous matrices of matrix_rows each.
template <typename Format>
__global__ void repack_kernel(const uint8_t* from, int64_t from_row_bytes, uint8_t* to, int64_t to_row_bytes,
                              int64_t cols, int64_t first_row, int64_t rows, int64_t matrix_rows) {
  using L = Layout<Format>;
  using U = TileLayout<Format>;
  const int64_t groups = U::groups_of(cols);
  for (int64_t i = blockIdx.x * int64_t{kRowThreads} + threadIdx.x; i < groups * rows;
       i += gridDim.x * int64_t{kRowThreads}) {
    const int64_t row = i / groups, group = i % groups, tile = group / kTileGroups;
    uint8_t* to_tile = to + (first_row + row) / matrix_rows * U::matrix_bytes(matrix_rows, to_row_bytes) +
                       U::offset((first_row + row) % matrix_rows, static_cast<int>(tile), to_row_bytes);
    const auto tile_groups = static_cast<int>(min(int64_t{kTileGroups}, groups - tile * kTileGroups));
    const auto tile_group = static_cast<int>(group % kTileGroups);
    const auto* weights = reinterpret_cast<const Format*>(from + row * from_row_bytes);
    if constexpr (quant::ScalarFormat<Format>) {
      for (int k = 0; k < L::kGroupWeights; ++k) {
        const int64_t col = group * L::kGroupWeights + k;
        *reinterpret_cast<Format*>(L::place(to_tile, tile_groups, tile_group, k)) =
            col < cols ? weights[col] : Format{};
      }
    } else {
      constexpr int kGroups = Format::kWeights / L::kGroupWeights;
      L::store(weights[group / kGroups], static_cast<int>(group % kGroups), to_tile, tile_groups, tile_group);
    }
  }
}

template <typename Format>
__global__ void embed_kernel(const uint8_t* weights, int64_t row_bytes, int64_t cols, const int32_t* ids, int64_t n,
                             float* out, Stamp* stamps) {
  using L = Layout<Format>;
  using U = TileLayout<Format>;
  const DependentWork work(stamps);
  const int64_t groups = U::groups_of(cols);
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < groups * n;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / groups, group = i % groups, tile = group / kTileGroups;
    Numbers<L::kGroupWeights> w;
    load_numbers<Format>(w, weights + U::offset(max(ids[row], 0), static_cast<int>(tile), row_bytes),
                         static_cast<int>(min(int64_t{kTileGroups}, groups - tile * kTileGroups)),
                         static_cast<int>(group % kTileGroups));
    float* to = out + row * cols + group * L::kGroupWeights;
    const auto value = [&](int k) { return __fmul_rn(w.factor, w.number[k]); };
    if (cols % L::kGroupWeights == 0) {
#pragma unroll
      for (int k = 0; k < L::kGroupWeights; k += 4)
        *reinterpret_cast<float4*>(to + k) = {value(k), value(k + 1), value(k + 2), value(k + 3)};
    } else {
#pragma unroll
      for (int k = 0; k < L::kGroupWeights; ++k)
        if (group * L::kGroupWeights + k < cols) to[k] = value(k);
    }
  }
}

template <typename Format>
struct Launchers {
  using L = Layout<Format>;
  using U = TileLayout<Format>;
  static int64_t row_bytes(int64_t cols) { return U::row_bytes(cols); }

  static int blocks_for(const Launch& launch, int64_t threads) {
    return static_cast<int>(
        std::clamp<int64_t>((threads + kRowThreads - 1) / kRowThreads, 1, launch.sm_count * int64_t{16}));
  }

  static void repack(const Launch& launch, const uint8_t* from, int64_t from_row_bytes, uint8_t* to, int64_t cols,
                     int64_t first_row, int64_t rows, int64_t matrix_rows) {
    launch(repack_kernel<Format>, blocks_for(launch, U::groups_of(cols) * rows), kRowThreads, 0, from, from_row_bytes,
           to, U::row_bytes(cols), cols, first_row, rows, matrix_rows);
  }

  // Warps whose rings fit beside a row block or two.
  template <bool kExact>
  static int matvec_warps(const ChipLimits& chip, int64_t cols, int tokens) {
    const int64_t none = matvec_shared_bytes<Format, kExact>(cols, tokens, 0, 2),
                  each = matvec_shared_bytes<Format, kExact>(cols, tokens, 1, 2) - none;
    return static_cast<int>(std::clamp<int64_t>((chip.shared_per_block - none) / each, 0, kMatvecWarps));
  }

  static int row_blocks_of(const MatvecArgs& args, int blocks) {
    return (args.result_row_blocks + blocks - 1) / blocks * (args.gated ? 2 : 1);
  }

  // With a large table and few weights there is time to wait.
  static bool waits(const MatvecArgs& args, int blocks) {
    const int64_t chunks = row_blocks_of(args, blocks) * ((U::groups_of(args.cols) + kTileGroups - 1) / kTileGroups);
    return kLutBytes<Format, false> >= 48 << 10 && chunks < 2 * kMatvecWarps;
  }

  // Over half of shared memory forces one block per multiprocessor; overlapping launches would start two blocks on the
  // first free one.
  static size_t matvec_shared(const ChipLimits& chip, int64_t needed) {
    return std::max(static_cast<size_t>(needed), static_cast<size_t>(chip.shared_per_block) / 2 + 2048);
  }

  template <int kTokens, bool kExact, bool kWhole = false>
  static void matvec_with(const Launch& launch, MatvecArgs args) {
    const int warps = matvec_warps<kExact>(launch, args.cols, kTokens);
    const auto needed = [&](int warps, int row_blocks) {
      return matvec_shared_bytes<Format, kExact>(args.cols, kTokens, warps, row_blocks);
    };
    if (warps < 1) throw_too_wide(args.cols, needed(1, 2), launch.shared_per_block);
    // One wave, or more if sums would not fit.
    const int tasks = (args.tokens + kTokens - 1) / kTokens, row_blocks = Chunks<Format>::count_row_blocks(args);
    int blocks = std::min(row_blocks, std::max(1, launch.sm_count / tasks));
    while (needed(warps, row_blocks_of(args, blocks)) > launch.shared_per_block)
      blocks = std::min(row_blocks, blocks + launch.sm_count);
    const size_t shared = matvec_shared(launch, needed(warps, row_blocks_of(args, blocks)));
    Chunks<Format>::distribute_row_blocks(args, blocks);
    if (waits(args, blocks)) args.dataflow_input = false;
    constexpr auto kernel = &matvec_kernel<Format, kTokens, kExact, kWhole>;
    allow_dynamic_shared_memory(kernel, shared);
    args.after_predecessor = !launch.overlap;
    args.stamps = launch.stamps();
    const dim3 grid = args.has_slots() ? dim3(blocks, args.slots, tasks / args.slots) : dim3(blocks, tasks);
    launch(kernel, grid, warps * kWarp, shared, args);
  }

  static void matvec(const Launch& launch, const MatvecArgs& args, bool exact) {
    // Experts differ between tokens. In exact mode the order of sums must not depend on the batch.
    const bool single = args.tokens == 1 || args.has_slots() || exact;
    const int most = matvec_warps<false>(launch, args.cols, 1);
    if constexpr (kHasExactKernel<Format>) { // exact mode needs no table, which may not fit
      // For float formats results are otherwise the same.
      const bool crowded = quant::FloatFormat<Format> && matvec_warps<true>(launch, args.cols, 1) > 2 * most;
      if (exact || most < 1 || crowded) return matvec_with<1, true>(launch, args);
    }
    const auto spares = [&](int warps) { return warps > most * 3 / 4; };
    if (!single && args.tokens > 2 && spares(matvec_warps<false>(launch, args.cols, 4)))
      return matvec_with<4, false>(launch, args);
    const bool whole = args.cols % U::kWeights == 0;
    if (!single && spares(matvec_warps<false>(launch, args.cols, 2)))
      return whole ? matvec_with<2, false, true>(launch, args) : matvec_with<2, false>(launch, args);
    whole ? matvec_with<1, false, true>(launch, args) : matvec_with<1, false>(launch, args);
  }

  struct PairCut {
    int first_blocks = 0; // 0: no such launch
    int64_t shared_bytes = 0;
  };
  template <typename Other>
  static PairCut cut_pair(const ChipLimits& chip, MatvecArgs args, MatvecArgs other) {
    const int tokens = args.tokens;
    if (args.cols % U::kWeights != 0 || chip.sm_count < 2 ||
        matvec_warps<false>(chip, args.cols, tokens) < kMatvecWarps ||
        Launchers<Other>::template matvec_warps<false>(chip, args.cols, tokens) < kMatvecWarps)
      return {};
    Chunks<Format>::count_row_blocks(args);
    Chunks<Other>::count_row_blocks(other);
    const auto bytes = [](const MatvecArgs& of) {
      double rows = 0;
      for (int s = 0; s < of.segments; ++s) rows += of.segment[s].rows;
      return rows * static_cast<double>(of.row_bytes);
    };
    const int best =
        std::clamp(static_cast<int>(std::lround(chip.sm_count * bytes(args) / (bytes(args) + bytes(other)))), 1,
                   chip.sm_count - 1);
    const int64_t needed =
        std::max(matvec_shared_bytes<Format, false>(args.cols, tokens, kMatvecWarps, row_blocks_of(args, best)),
                 matvec_shared_bytes<Other, false>(args.cols, tokens, kMatvecWarps,
                                                   Launchers<Other>::row_blocks_of(other, chip.sm_count - best)));
    if (needed > chip.shared_per_block) return {};
    return {best, needed};
  }

  template <typename Other>
  static void matvec_pair_with(const Launch& launch, MatvecArgs args, MatvecArgs other) {
    const PairCut cut = cut_pair<Other>(launch, args, other);
    const int blocks = cut.first_blocks, other_blocks = launch.sm_count - blocks;
    const size_t shared = matvec_shared(launch, cut.shared_bytes);
    Chunks<Format>::count_row_blocks(args);
    Chunks<Other>::count_row_blocks(other);
    Chunks<Format>::distribute_row_blocks(args, blocks);
    Chunks<Other>::distribute_row_blocks(other, other_blocks);
    const auto kernel = args.tokens == 1 ? matvec_pair_kernel<Format, Other, 1> : matvec_pair_kernel<Format, Other, 2>;
    allow_dynamic_shared_memory(kernel, shared);
    if (waits(args, blocks)) args.dataflow_input = false;
    if (Launchers<Other>::waits(other, other_blocks)) other.dataflow_input = false;
    args.after_predecessor = other.after_predecessor = !launch.overlap;
    args.stamps = other.stamps = launch.stamps();
    launch(kernel, launch.sm_count, kMatvecThreads, shared, args, other, blocks);
  }

  // Formats that recipes give attn_v beside others with blocks of 256 weights.
  template <typename Visit>
  static void visit_second(quant::Type other_type, Visit&& visit) {
    if constexpr (quant::PackedFormat<Format>)
      if constexpr (Format::kWeights == 256) {
        const auto with = [&]<typename Other>(std::type_identity<Other> other) {
          if constexpr (!std::is_same_v<Format, Other>) visit(other);
        };
        if (other_type == quant::Type::Q4_K) with(std::type_identity<quant::Q4_K>());
        if (other_type == quant::Type::Q5_K) with(std::type_identity<quant::Q5_K>());
        if (other_type == quant::Type::Q6_K) with(std::type_identity<quant::Q6_K>());
      }
  }

  static bool can_pair(const ChipLimits& chip, const MatvecArgs& args, const MatvecArgs& other,
                       quant::Type other_type) {
    bool can = false;
    visit_second(other_type, [&]<typename Other>(std::type_identity<Other>) {
      can = cut_pair<Other>(chip, args, other).first_blocks > 0;
    });
    return can;
  }

  static void matvec_pair(const Launch& launch, const MatvecArgs& args, const MatvecArgs& other,
                          quant::Type other_type) {
    visit_second(other_type,
                 [&]<typename Other>(std::type_identity<Other>) { matvec_pair_with<Other>(launch, args, other); });
  }

  // blocks 0: no such kernel. One block per token is left for the choice.
  struct RouterCut {
    int blocks = 0, rows = 0; // rows: of the router, per block
    int64_t product_bytes = 0, shared_bytes = 0;
  };
  static RouterCut cut_router(const ChipLimits& chip, MatvecArgs args, const RouterRows& router) {
    if (kFloatDots<Format, false> || args.cols % U::kWeights != 0 ||
        matvec_warps<false>(chip, args.cols, args.tokens) < kMatvecWarps)
      return {};
    const int blocks = std::min(Chunks<Format>::count_row_blocks(args), chip.sm_count - args.tokens);
    if (router.route.experts > kMaxRouterRows * blocks || waits(args, blocks)) return {};
    const int rows = (router.route.experts + blocks - 1) / blocks;
    const int64_t product = core::round_up(
        matvec_shared_bytes<Format, false>(args.cols, args.tokens, kMatvecWarps, row_blocks_of(args, blocks)), 16);
    const int64_t needed = product + router_scores_bytes(args.cols + router.width, rows);
    if (needed > chip.shared_per_block) return {};
    return {blocks, rows, product, needed};
  }
  static bool can_take_router(const ChipLimits& chip, const MatvecArgs& args, const RouterRows& router) {
    return cut_router(chip, args, router).blocks > 0;
  }
  static void matvec_router(const Launch& launch, const MatvecArgs& matvec, const RouterRows& rows) {
    if constexpr (!kFloatDots<Format, false>) {
      MatvecArgs args = matvec;
      RouterRows router = rows;
      const RouterCut cut = cut_router(launch, args, router);
      Chunks<Format>::count_row_blocks(args);
      Chunks<Format>::distribute_row_blocks(args, cut.blocks);
      args.after_predecessor = !launch.overlap;
      args.stamps = launch.stamps();
      router.rows = cut.rows;
      router.shared_offset = static_cast<int>(cut.product_bytes);
      const size_t shared = matvec_shared(launch, cut.shared_bytes);
      const auto kernel = args.tokens == 1 ? matvec_router_kernel<Format, 1> : matvec_router_kernel<Format, 2>;
      allow_dynamic_shared_memory(kernel, shared);
      launch(kernel, cut.blocks + args.tokens, kMatvecThreads, shared, args, router);
    }
  }

  static void embed(const Launch& launch, const uint8_t* weights, int64_t cols, const int32_t* ids, int n, float* out) {
    const int64_t groups = U::groups_of(cols) * n;
    const bool few = groups <= 16 * launch.sm_count; // stores take long on one multiprocessor
    launch(embed_kernel<Format>, few ? static_cast<int>((groups + 15) / 16) : blocks_for(launch, groups),
           few ? 16 : kRowThreads, 0, weights, U::row_bytes(cols), cols, ids, n, out, launch.stamps());
  }

  template <typename Shape>
  static unsigned gemm_tiles(const GemmArgs& args) {
    const auto tiles = [](int n, int tile) { return static_cast<unsigned>((n + tile - 1) / tile); };
    unsigned row_tiles = 0;
    for (int s = 0; s < args.segments; ++s) row_tiles += tiles(args.segment[s].rows, Shape::kN);
    return row_tiles * tiles(args.tokens, Shape::kM);
  }

  template <typename Shape>
  static void gemm_with(const Launch& launch, const GemmArgs& args) {
    constexpr auto kernel = &gemm_kernel<Format, Shape>;
    allow_dynamic_shared_memory(kernel, Shape::kSharedBytes);
    const unsigned token_tiles = static_cast<unsigned>((args.tokens + Shape::kM - 1) / Shape::kM);
    launch(kernel, dim3(token_tiles, gemm_tiles<Shape>(args) / token_tiles), Shape::kThreads, Shape::kSharedBytes,
           args);
  }

  static void gemm(const Launch& launch, const GemmArgs& args) {
    // One block of the others would fill a multiprocessor.
    if (2 * PromptShape::kSharedBytes > launch.shared_per_block) return gemm_with<SmallShape>(launch, args);
    // Large tiles decode half as often, but must suffice for all multiprocessors.
    const bool large = LargeShape::kSharedBytes <= launch.shared_per_block && args.tokens > LargeShape::kM / 2 &&
                       gemm_tiles<LargeShape>(args) >= 2 * static_cast<unsigned>(launch.sm_count);
    large ? gemm_with<LargeShape>(launch, args) : gemm_with<PromptShape>(launch, args);
  }

  static void integer_product(const Launch& launch, const IntegerProductArgs& args) {
    if constexpr (IntegerFormat<Format>) {
      using Shape = IntegerShape<Format>;
      const auto tiles = [](int n, int tile) { return static_cast<unsigned>((n + tile - 1) / tile); };
      unsigned row_tiles = 0;
      for (int s = 0; s < (args.gated ? 1 : args.product.segments); ++s)
        row_tiles += tiles(args.product.segment[s].rows, args.gated ? Shape::kRows / 2 : Shape::kRows);
      constexpr auto kernel = &integer_product_kernel<Format>;
      allow_dynamic_shared_memory(kernel, Shape::kSharedBytes);
      launch(kernel, dim3(tiles(args.product.tokens, Shape::kTokens), row_tiles), Shape::kThreads, Shape::kSharedBytes,
             args);
    }
  }

  static BatchCut cut_batch(const ChipLimits& chip, const BatchArgs& args, int tile_tokens) {
    Launch launch;
    static_cast<ChipLimits&>(launch) = chip;
    BatchArgs cut = args;
    const bool fits = plan_batch<Format>(launch, cut, tile_tokens) > 0, split = cut.ranges > 1;
    return {fits, split, split && !cut.serial_ranges ? cut.ranges : 0, cut.token_tiles, cut.row_tiles};
  }

  template <int kTileTokens>
  static void batch_with(const Launch& launch, BatchArgs args) {
    const int shared = plan_batch<Format>(launch, args, kTileTokens);
    const auto kernel =
        args.tiles ? &batch_kernel<Format, kTileTokens, true> : &batch_kernel<Format, kTileTokens, false>;
    allow_dynamic_shared_memory(kernel, launch.shared_per_block - kBatchStaticBytes);
    args.stamps = launch.stamps();
    launch(kernel, args.tiles ? launch.sm_count : std::min(args.tasks, launch.sm_count),
           args.warp_groups * BatchShape<Format>::kThreads, shared, args);
    if (args.ranges > 1 && !args.serial_ranges && !args.leaves_sums) launch_batch_finish(launch, args, kTileTokens);
  }

  static void batch(const Launch& launch, const BatchArgs& args, int tile_tokens) {
    switch (tile_tokens) {
    case 8: return batch_with<8>(launch, args);
    case 16: return batch_with<16>(launch, args);
    default: return batch_with<32>(launch, args);
    }
  }

  template <int kTileTokens>
  static void wide_batch_with(const Launch& launch, WideArgs args) {
    constexpr auto kernel = &wide_batch_kernel<Format, kTileTokens>;
    constexpr int kGroups = wide_groups(kTileTokens);
    allow_dynamic_shared_memory(kernel, kWideSharedBytes);
    BatchArgs& batch = args.batch;
    const int block_tiles = kWideRows / kBatchRows * (kGroups >> args.log2_parts);
    args.row_blocks = Divisor((batch.row_tiles + block_tiles - 1) / block_tiles);
    batch.token_tile_count = Divisor(batch.token_tiles);
    const int pairs = (batch.product.cols + 2 * kWideColumns - 1) / (2 * kWideColumns),
              pieces = batch.ranges << args.log2_parts;
    args.piece_pairs = pairs / pieces, args.longer_pieces = pairs % pieces;
    batch.stamps = launch.stamps();
    launch(kernel, args.row_blocks.by * batch.ranges * batch.token_tiles, kGroups * 128, kWideSharedBytes, args);
    if (batch.ranges > 1 && !batch.leaves_sums) launch_batch_finish(launch, batch, kTileTokens);
  }

  static void wide_batch(const Launch& launch, const WideArgs& args, int tile_tokens) {
    switch (tile_tokens) {
    case 32: return wide_batch_with<32>(launch, args);
    case 64: return wide_batch_with<64>(launch, args);
    case 96: return wide_batch_with<96>(launch, args);
    case 128: return wide_batch_with<128>(launch, args);
    case 192: return wide_batch_with<192>(launch, args);
    default: return wide_batch_with<256>(launch, args);
    }
  }

  static bool can_dot_experts(const ChipLimits& chip, const BatchArgs& args) {
    if constexpr (DotFormat<Format>) {
      ExpertDotArgs cut{args};
      return plan_expert_dots<Format>(chip, cut) > 0;
    }
    return false;
  }
  static void expert_dots(const Launch& launch, const BatchArgs& args) {
    if constexpr (DotFormat<Format>) {
      ExpertDotArgs cut{args};
      const int shared = plan_expert_dots<Format>(launch, cut);
      constexpr auto kernel = &expert_dots_kernel<Format>;
      allow_dynamic_shared_memory(kernel, launch.shared_per_block - kDotStaticBytes);
      cut.product.stamps = launch.stamps();
      launch(kernel, launch.sm_count, ExpertDotShape<Format>::kThreads, shared, cut);
    }
  }

  static void expand(const Launch& launch, const ExpandArgs& args) {
    constexpr int kWarps = kExpandThreads / kWarp;
    launch(expand_kernel<Format>, (expand_tasks(args) + kWarps - 1) / kWarps, kExpandThreads, 0, args);
  }
};

template <typename Format>
constexpr FormatKernels make_format_kernels(quant::Type type) {
  using L = Launchers<Format>;
  return {.type = type,
          .row_bytes = &L::row_bytes,
          .matrix_bytes = &TileLayout<Format>::matrix_bytes,
          .repack = &L::repack,
          .matvec = &L::matvec,
          .can_pair = &L::can_pair,
          .matvec_pair = &L::matvec_pair,
          .can_adapt = &AdaptedLaunchers<Format>::can_adapt,
          .matvec_adapted = &AdaptedLaunchers<Format>::matvec_adapted,
          .can_adapt_pair = &AdaptedLaunchers<Format>::can_adapt_pair,
          .matvec_adapted_pair = &AdaptedLaunchers<Format>::matvec_adapted_pair,
          .embed = &L::embed,
          .gemm = &L::gemm,
          .integer_product = IntegerFormat<Format> ? &L::integer_product : nullptr,
          .cut_batch = &L::cut_batch,
          .batch = &L::batch,
          .wide_batch = &L::wide_batch,
          .can_dot_experts = &L::can_dot_experts,
          .expert_dots = &L::expert_dots,
          .expand = &L::expand,
          .can_take_router = &L::can_take_router,
          .matvec_router = &L::matvec_router};
}

} // namespace ridge::kernels::cuda
