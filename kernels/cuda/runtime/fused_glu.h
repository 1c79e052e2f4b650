#pragma once

#include "core/ops.h"
#include "kernels/cuda/runtime/glu.h"

#include <optional>

namespace ridge::kernels::cuda {

// Returns nullopt if products cannot fuse the activation.
inline std::optional<FusedGlu> fused_glu(const core::ActivationParams& params) {
  if (params.limit > 0 && params.limits_activated) return std::nullopt;
  FusedGlu glu = {.limit = params.limit, .shift = params.shift};
  if (params.kind == core::Activation::silu) {
    glu.linear = params.alpha;
    return glu;
  }
  if (params.kind != core::Activation::gelu) return std::nullopt;
  glu.is_gelu = true;
  glu.linear = kGeluLinear;
  glu.cubic = kGeluCubic;
  return glu;
}

} // namespace ridge::kernels::cuda
