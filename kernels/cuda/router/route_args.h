// The arguments of a choice of experts.
#pragma once

#include "core/gate.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct OpCall;

struct RouteArgs {
  float* scores;                 // [tokens][experts]
  const float *bias, *of_expert; // [experts] or null; the latter are scales of shares
  int32_t* ids;                  // [tokens][used]
  float* shares;                 // [tokens][used]
  int experts, used, groups, groups_used;
  core::Gate gate;
  bool normalize;
  float scale;
  bool by_score, by_sigmoid;
  int share_matrix;
  const int32_t *table, *tokens; // [vocabulary][used]: the experts of each token, whatever the scores; or null
};
RouteArgs route_args(const OpCall& call); // of a `route`

} // namespace ridge::kernels::cuda
