// Launchers of products with LoRA adapters in their kernels.
#pragma once

#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/matvec/matvec.cuh"

namespace ridge::kernels::cuda {

template <typename Format>
struct Launchers; // format_kernels.cuh

template <typename Format>
struct AdaptedLaunchers {
  using L = Launchers<Format>;

  static void matvec_adapted(const Launch& launch, MatvecArgs args, AdapterArgs adapter, const AdaptedCut& cut) {
    L::prepare(launch, args, cut.blocks, cut.waits);
    adapter.cut = cut.adapter;
    const bool whole = args.cols % TileLayout<Format>::kWeights == 0;
    constexpr int kMost = kMaxAdapterRows;
    const bool one = cut.adapter.rows <= 1;
    const auto kernel = args.tokens == 1 ? whole ? one ? &matvec_adapted_kernel<Format, 1, true, 1>
                                                       : &matvec_adapted_kernel<Format, 1, true, kMost>
                                                 : &matvec_adapted_kernel<Format, 1, false, kMost>
                        : whole ? &matvec_adapted_kernel<Format, 2, true, kMost>
                                         : &matvec_adapted_kernel<Format, 2, false, kMost>;
    allow_dynamic_shared_memory(kernel, cut.shared_bytes);
    launch(kernel, cut.blocks, cut.warps * kWarp, cut.shared_bytes, args, adapter);
  }

  template <typename Other>
  static void matvec_adapted_pair_with(const Launch& launch, AdaptedProduct first, AdaptedProduct other,
                                       const PairCut& cut) {
    L::prepare(launch, first.product, cut.first_blocks, cut.waits[0]);
    Launchers<Other>::prepare(launch, other.product, launch.sm_count - cut.first_blocks, cut.waits[1]);
    first.adapter.cut = cut.adapters[0], other.adapter.cut = cut.adapters[1];
    constexpr int kMost = kMaxAdapterRows;
    const bool one = std::max(cut.adapters[0].rows, cut.adapters[1].rows) <= 1;
    const auto kernel = first.product.tokens == 1 ? one ? &matvec_adapted_pair_kernel<Format, Other, 1, 1>
                                                        : &matvec_adapted_pair_kernel<Format, Other, 1, kMost>
                                                  : &matvec_adapted_pair_kernel<Format, Other, 2, kMost>;
    allow_dynamic_shared_memory(kernel, cut.shared_bytes);
    launch(kernel, launch.sm_count, kMatvecThreads, cut.shared_bytes, first.product, first.adapter, other.product,
           other.adapter, cut.first_blocks);
  }

  static void matvec_adapted_pair(const Launch& launch, const AdaptedProduct& first, const AdaptedProduct& other,
                                  quant::Type other_type, const PairCut& cut) {
    L::visit_second(other_type, [&]<typename Other>(std::type_identity<Other>) {
      matvec_adapted_pair_with<Other>(launch, first, other, cut);
    });
  }
};

} // namespace ridge::kernels::cuda
