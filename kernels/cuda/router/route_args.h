#pragma once

#include "core/gate.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct OpCall;

struct RouteArgs {
  float* scores;                 // [tokens][experts]
  const float *bias, *of_expert; // [experts] or null; of_expert: share factors
  int32_t* ids;                  // [tokens][used]
  float* shares;                 // [tokens][used]
  int experts, used, groups, groups_used;
  core::Gate gate;
  bool normalize;
  float scale;
  bool by_score, by_sigmoid;
  int share_matrix;
  const int32_t *table, *tokens; // table: [vocabulary][used], experts by token instead of scores, or null
};
RouteArgs route_args(const OpCall& call);

} // namespace ridge::kernels::cuda
