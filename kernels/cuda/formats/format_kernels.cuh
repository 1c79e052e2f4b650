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
  static int blocks_for(const Launch& launch, int64_t threads) {
    return static_cast<int>(
        std::clamp<int64_t>((threads + kRowThreads - 1) / kRowThreads, 1, launch.sm_count * int64_t{16}));
  }

  static void repack(const Launch& launch, const uint8_t* from, int64_t from_row_bytes, uint8_t* to, int64_t cols,
                     int64_t first_row, int64_t rows, int64_t matrix_rows) {
    launch(repack_kernel<Format>, blocks_for(launch, U::groups_of(cols) * rows), kRowThreads, 0, from, from_row_bytes,
           to, U::row_bytes(cols), cols, first_row, rows, matrix_rows);
  }

  template <int kTokens, bool kExact, bool kWhole = false>
  static void matvec_with(const Launch& launch, MatvecArgs args, const MatvecCut& cut) {
    const int tasks = (args.tokens + kTokens - 1) / kTokens;
    prepare(launch, args, cut.blocks, cut.waits);
    constexpr auto kernel = &matvec_kernel<Format, kTokens, kExact, kWhole>;
    allow_dynamic_shared_memory(kernel, cut.shared_bytes);
    const dim3 grid = args.has_slots() ? dim3(cut.blocks, args.slots, tasks / args.slots) : dim3(cut.blocks, tasks);
    launch(kernel, grid, cut.warps * kWarp, cut.shared_bytes, args);
  }
  static void prepare(const Launch& launch, MatvecArgs& args, int blocks, bool waits) {
    Chunks<Format>::distribute_row_blocks(args, blocks);
    if (waits) args.dataflow_input = false;
    args.after_predecessor = !launch.overlap;
    args.stamps = launch.stamps();
  }

  static void matvec(const Launch& launch, const MatvecArgs& args, const MatvecCut& cut) {
    if (cut.warps < 1) throw_too_wide(args.cols, cut.shared_bytes, launch.shared_per_block);
    if constexpr (kHasExactKernel<Format>)
      if (cut.exact) return matvec_with<1, true>(launch, args, cut);
    const bool whole = args.cols % U::kWeights == 0;
    if (cut.tokens == kMaxMatvecTokens) return matvec_with<kMaxMatvecTokens, false>(launch, args, cut);
    if (cut.tokens == 2)
      return whole ? matvec_with<2, false, true>(launch, args, cut) : matvec_with<2, false>(launch, args, cut);
    whole ? matvec_with<1, false, true>(launch, args, cut) : matvec_with<1, false>(launch, args, cut);
  }

  template <typename Other>
  static void matvec_pair_with(const Launch& launch, MatvecArgs args, MatvecArgs other, const PairCut& cut) {
    prepare(launch, args, cut.first_blocks, cut.waits[0]);
    Launchers<Other>::prepare(launch, other, launch.sm_count - cut.first_blocks, cut.waits[1]);
    const auto kernel = args.tokens == 1 ? matvec_pair_kernel<Format, Other, 1> : matvec_pair_kernel<Format, Other, 2>;
    allow_dynamic_shared_memory(kernel, cut.shared_bytes);
    launch(kernel, launch.sm_count, cut.warps * kWarp, cut.shared_bytes, args, other, cut.first_blocks);
  }

  // Formats that cut_pair takes.
  template <typename Visit>
  static void visit_second(quant::Type other_type, const Visit& visit) {
    if constexpr (quant::PackedFormat<Format>)
      if constexpr (Format::kWeights == 256) {
        const auto with = [&]<typename Other>(quant::Type type, std::type_identity<Other> other) {
          if constexpr (!std::is_same_v<Format, Other>)
            if (other_type == type) visit(other);
        };
        with(quant::Type::Q4_K, std::type_identity<quant::Q4_K>());
        with(quant::Type::Q5_K, std::type_identity<quant::Q5_K>());
        with(quant::Type::Q6_K, std::type_identity<quant::Q6_K>());
      }
  }

  static void matvec_pair(const Launch& launch, const MatvecArgs& args, const MatvecArgs& other, quant::Type other_type,
                          const PairCut& cut) {
    visit_second(other_type,
                 [&]<typename Other>(std::type_identity<Other>) { matvec_pair_with<Other>(launch, args, other, cut); });
  }

  static void matvec_router(const Launch& launch, MatvecArgs args, RouterRows router, const RouterCut& cut) {
    if constexpr (!kFloatDots<Format, false>) {
      prepare(launch, args, cut.blocks, false);
      router.rows = cut.rows;
      router.shared_offset = static_cast<int>(cut.product_bytes);
      const auto kernel = args.tokens == 1 ? matvec_router_kernel<Format, 1> : matvec_router_kernel<Format, 2>;
      allow_dynamic_shared_memory(kernel, cut.shared_bytes);
      launch(kernel, cut.blocks + args.tokens, cut.warps * kWarp, cut.shared_bytes, args, router);
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

  template <int kTileTokens>
  static void batch_with(const Launch& launch, const BatchArgs& args, int shared_bytes) {
    const auto kernel =
        args.tiles ? &batch_kernel<Format, kTileTokens, true> : &batch_kernel<Format, kTileTokens, false>;
    allow_dynamic_shared_memory(kernel, launch.shared_per_block - kBatchStaticBytes);
    launch(kernel, args.tiles ? launch.sm_count : std::min(args.tasks, launch.sm_count),
           args.warp_groups * BatchShape<Format>::kThreads, shared_bytes, args);
    if (args.ranges > 1 && !args.serial_ranges && !args.leaves_sums) launch_batch_finish(launch, args, kTileTokens);
  }

  static void batch(const Launch& launch, BatchArgs args, int tile_tokens, const TileCut& cut) {
    set_cut(args, cut);
    args.stamps = launch.stamps();
    switch (tile_tokens) {
    case 8: return batch_with<8>(launch, args, cut.shared_bytes);
    case 16: return batch_with<16>(launch, args, cut.shared_bytes);
    default: return batch_with<32>(launch, args, cut.shared_bytes);
    }
  }

  template <int kTileTokens>
  static void wide_batch_with(const Launch& launch, WideArgs args) {
    constexpr auto kernel = &wide_batch_kernel<Format, kTileTokens>;
    constexpr int kGroups = wide_groups(kTileTokens);
    allow_dynamic_shared_memory(kernel, kWideSharedBytes);
    const BatchArgs& batch = args.batch;
    const int block_tiles = kWideRows / kBatchRows * (kGroups >> args.log2_parts);
    args.row_blocks = Divisor((batch.row_tiles + block_tiles - 1) / block_tiles);
    const int pairs = (batch.product.cols + 2 * kWideColumns - 1) / (2 * kWideColumns),
              pieces = batch.ranges << args.log2_parts;
    args.piece_pairs = pairs / pieces, args.longer_pieces = pairs % pieces;
    launch(kernel, args.row_blocks.by * batch.ranges * batch.token_tiles, kGroups * 128, kWideSharedBytes, args);
    if (batch.ranges > 1 && !batch.leaves_sums) launch_batch_finish(launch, batch, kTileTokens);
  }

  static void wide_batch(const Launch& launch, const BatchArgs& batch, int tile_tokens, const TileCut& cut) {
    WideArgs args{.log2_parts = cut.log2_parts, .batch = batch};
    set_cut(args.batch, cut);
    args.batch.stamps = launch.stamps();
    switch (tile_tokens) {
    case 32: return wide_batch_with<32>(launch, args);
    case 64: return wide_batch_with<64>(launch, args);
    case 96: return wide_batch_with<96>(launch, args);
    case 128: return wide_batch_with<128>(launch, args);
    case kCountedTile: return wide_batch_with<kCountedTile>(launch, args);
    case 192: return wide_batch_with<192>(launch, args);
    default: return wide_batch_with<256>(launch, args);
    }
  }

  static void expert_dots(const Launch& launch, const BatchArgs& product, const DotsCut& cut) {
    if constexpr (DotFormat<Format>) {
      ExpertDotArgs args{
          product, cut.stages, cut.team, cut.log2_team, cut.room, cut.row_block_pitch, Divisor(cut.row_tiles)};
      args.product.row_tiles = cut.row_tiles;
      args.product.stamps = launch.stamps();
      constexpr auto kernel = &expert_dots_kernel<Format>;
      allow_dynamic_shared_memory(kernel, launch.shared_per_block - kDotStaticBytes);
      launch(kernel, launch.sm_count, ExpertDotShape<Format>::kThreads, cut.shared_bytes, args);
    }
  }

  static void expand(const Launch& launch, const ExpandArgs& args) {
    constexpr int kWarps = kExpandThreads / kWarp;
    launch(expand_kernel<Format>, (expand_tasks(args) + kWarps - 1) / kWarps, kExpandThreads, 0, args);
  }
};

template <typename Format, quant::Type kType>
constexpr FormatKernels make_format_kernels() {
  using L = Launchers<Format>;
  using U = TileLayout<Format>;
  constexpr FormatNumbers kNumbers = format_numbers(kType);
  static_assert(
      kNumbers.packed == quant::PackedFormat<Format> && kNumbers.group_weights == Layout<Format>::kGroupWeights &&
          kNumbers.tile_bytes == U::kBytes && kNumbers.row_bytes(5 * 256) == U::row_bytes(5 * 256) &&
          kNumbers.lut_bytes == kLutBytes<Format, false> && kNumbers.group_bytes >= kGroupBytes<Format, false> &&
          kNumbers.dots == DotFormat<Format> && kNumbers.bytes == IntegerFormat<Format>,
      "products/desc.h describes the layout");
  return {.numbers = kNumbers,
          .repack = &L::repack,
          .matvec = &L::matvec,
          .matvec_pair = &L::matvec_pair,
          .matvec_router = &L::matvec_router,
          .matvec_adapted = &AdaptedLaunchers<Format>::matvec_adapted,
          .matvec_adapted_pair = &AdaptedLaunchers<Format>::matvec_adapted_pair,
          .embed = &L::embed,
          .gemm = &L::gemm,
          .integer_product = &L::integer_product,
          .batch = &L::batch,
          .wide_batch = &L::wide_batch,
          .expert_dots = &L::expert_dots,
          .expand = &L::expand};
}

} // namespace ridge::kernels::cuda
