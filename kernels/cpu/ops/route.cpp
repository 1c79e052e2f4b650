// Which experts each token goes to, and their shares.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

// The best expert that is not among the first `chosen` of `ids`. NaN scores (broken weights) count as worst, so that
// the ids stay distinct.
int32_t best_other(const float* scores, int64_t experts, const int32_t* ids, int64_t chosen) {
  int32_t best = -1;
  for (int32_t e = 0; e < experts; ++e) {
    if (std::find(ids, ids + chosen, e) != ids + chosen) continue;
    if (best < 0 || scores[e] > scores[best] || (std::isnan(scores[best]) && !std::isnan(scores[e]))) best = e;
  }
  return best;
}

void route_token(const core::RouteParams& params, const float* scores, int32_t* ids, float* shares) {
  const float largest = *std::max_element(scores, scores + params.experts);
  const auto weight = [&](int64_t e) { return std::exp(static_cast<double>(scores[e]) - largest); };
  double all = 0, chosen = 0;
  for (int64_t e = 0; e < params.experts; ++e) all += weight(e);
  for (int64_t s = 0; s < params.used; ++s) {
    ids[s] = best_other(scores, params.experts, ids, s);
    chosen += weight(ids[s]);
  }
  for (int64_t s = 0; s < params.used; ++s)
    shares[s] = static_cast<float>(weight(ids[s]) / (params.normalize ? chosen : all));
}

} // namespace

void lower_route(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::RouteParams>(op.params);
  const float* x = lowering.value(op.inputs[0]);
  auto* ids = reinterpret_cast<int32_t*>(lowering.value(op.outputs[0]));
  float* shares = lowering.value(op.outputs[1]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered,
                    params.experts * params.used, [=](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t)
                        route_token(params, x + t * params.experts, ids + t * params.used, shares + t * params.used);
                    });
}

} // namespace ridge::kernels::cpu
