// Launchers of products with LoRA adapters in their kernels.
#pragma once

#include "core/host_device/round_up.h"
#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/matvec/matvec.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

template <typename Format>
struct Launchers; // format_kernels.cuh

template <typename Format>
struct AdaptedLaunchers {
  using L = Launchers<Format>;
  using U = TileLayout<Format>;
  using PairCut = typename L::PairCut;

  // Plans LoRA adapters in the product's kernel, behind whose memory theirs begins. Returns the bytes needed, 0: no
  // such kernel.
  static int64_t plan_adapter(const ChipLimits& chip, const MatvecArgs& args, int blocks, AdapterArgs& adapter) {
    if (args.has_slots() || args.tokens > 2 || args.cols % 32 != 0 ||
        L::template matvec_warps<false>(chip, args.cols, args.tokens) < kMatvecWarps)
      return 0;
    adapter.rows = (adapter.rank + blocks - 1) / blocks;
    const int row_blocks = L::row_blocks_of(args, blocks), results = args.gated ? row_blocks / 2 : row_blocks;
    const AdapterShared behind = adapter_shared(adapter, args.cols, args.tokens, adapter.rows,
                                                int64_t{results} * Chunks<Format>::kRows, args.gated);
    const int64_t product =
        core::round_up(matvec_shared_bytes<Format, false>(args.cols, args.tokens, kMatvecWarps, row_blocks), 16);
    adapter.shared_offset = static_cast<int>(product);
    adapter.b_offset = static_cast<int>(behind.b);
    adapter.scaled_offset = static_cast<int>(behind.scaled);
    const int64_t needed = product + behind.bytes;
    return adapter.rows <= kMaxAdapterRows && needed <= chip.shared_per_block ? needed : 0;
  }

  static bool can_adapt(const ChipLimits& chip, const MatvecArgs& product, const AdapterArgs& of) {
    MatvecArgs args = product;
    AdapterArgs adapter = of;
    return plan_adapter(chip, args, std::min(Chunks<Format>::count_row_blocks(args), chip.sm_count), adapter) > 0;
  }

  static void matvec_adapted(const Launch& launch, const MatvecArgs& product, const AdapterArgs& of) {
    MatvecArgs args = product;
    AdapterArgs adapter = of;
    const int blocks = std::min(Chunks<Format>::count_row_blocks(args), launch.sm_count);
    const size_t shared = L::matvec_shared(launch, plan_adapter(launch, args, blocks, adapter));
    Chunks<Format>::distribute_row_blocks(args, blocks);
    if (L::waits(args, blocks)) args.dataflow_input = false;
    args.after_predecessor = !launch.overlap;
    args.stamps = launch.stamps();
    const bool whole = args.cols % U::kWeights == 0;
    const auto kernel = args.tokens == 1
                            ? whole ? &matvec_adapted_kernel<Format, 1, true> : &matvec_adapted_kernel<Format, 1, false>
                        : whole ? &matvec_adapted_kernel<Format, 2, true>
                                : &matvec_adapted_kernel<Format, 2, false>;
    allow_dynamic_shared_memory(kernel, shared);
    launch(kernel, blocks, kMatvecThreads, shared, args, adapter);
  }

  // The pair's blocks are cut as without adapters.
  template <typename Other>
  static PairCut plan_adapted_pair(const ChipLimits& chip, AdaptedProduct& first, AdaptedProduct& other) {
    const PairCut cut = L::template cut_pair<Other>(chip, first.product, other.product);
    if (cut.first_blocks == 0) return {};
    Chunks<Format>::count_row_blocks(first.product);
    Chunks<Other>::count_row_blocks(other.product);
    const int64_t one = plan_adapter(chip, first.product, cut.first_blocks, first.adapter),
                  two = AdaptedLaunchers<Other>::plan_adapter(chip, other.product, chip.sm_count - cut.first_blocks,
                                                              other.adapter);
    return one > 0 && two > 0 ? PairCut{cut.first_blocks, std::max(one, two)} : PairCut{};
  }

  template <typename Other>
  static void matvec_adapted_pair_with(const Launch& launch, AdaptedProduct first, AdaptedProduct other) {
    const PairCut cut = plan_adapted_pair<Other>(launch, first, other);
    MatvecArgs &args = first.product, &others = other.product;
    const int blocks = cut.first_blocks, other_blocks = launch.sm_count - blocks;
    const size_t shared = L::matvec_shared(launch, cut.shared_bytes);
    Chunks<Format>::distribute_row_blocks(args, blocks);
    Chunks<Other>::distribute_row_blocks(others, other_blocks);
    const auto kernel =
        args.tokens == 1 ? matvec_adapted_pair_kernel<Format, Other, 1> : matvec_adapted_pair_kernel<Format, Other, 2>;
    allow_dynamic_shared_memory(kernel, shared);
    if (L::waits(args, blocks)) args.dataflow_input = false;
    if (Launchers<Other>::waits(others, other_blocks)) others.dataflow_input = false;
    args.after_predecessor = others.after_predecessor = !launch.overlap;
    args.stamps = others.stamps = launch.stamps();
    launch(kernel, launch.sm_count, kMatvecThreads, shared, args, first.adapter, others, other.adapter, blocks);
  }

  static bool can_adapt_pair(const ChipLimits& chip, const AdaptedProduct& first, const AdaptedProduct& second,
                             quant::Type other_type) {
    bool can = false;
    L::visit_second(other_type, [&]<typename Other>(std::type_identity<Other>) {
      AdaptedProduct one = first, two = second;
      can = plan_adapted_pair<Other>(chip, one, two).first_blocks > 0;
    });
    return can;
  }

  static void matvec_adapted_pair(const Launch& launch, const AdaptedProduct& first, const AdaptedProduct& second,
                                  quant::Type other_type) {
    L::visit_second(other_type, [&]<typename Other>(std::type_identity<Other>) {
      matvec_adapted_pair_with<Other>(launch, first, second);
    });
  }
};

} // namespace ridge::kernels::cuda
