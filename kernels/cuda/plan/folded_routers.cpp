#include "kernels/cuda/plan/folded_routers.h"

#include "core/executor.h"
#include "core/host_device/round_up.h"
#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/plan/planner.h"
#include "quant/registry.h"

#include <algorithm>

namespace ridge::kernels::cuda {

using core::Op;
using core::OpKind;

namespace {

// Reading this takes about 2 µs, all that folding saves.
constexpr int64_t kMaxFoldedBytes = 8 << 20;
constexpr int64_t kWholeColumns = 1024; // the kernel handles only whole warp tiles

} // namespace

bool Planner::takes_router(const MatrixStep& m) const {
  if (m.parts.size() != 1 || m.norm != kNone || m.glu || m.ids != kNone || !m.shared_expert.empty() ||
      m.residual == kNone)
    return false;
  const core::Weight& w = program_.weights[m.parts[0].weight];
  const quant::FormatInfo* format = quant::find_format(w.type);
  return format && format->packed && w.cols % kWholeColumns == 0;
}

bool Planner::is_router(const MatrixStep& m) const {
  if (m.norm == kNone || m.glu || m.ids != kNone || !m.shared_expert.empty() || m.residual != kNone) return false;
  if (m.parts.size() == 1) return true;
  return m.parts.size() == 2 && m.parts[1].bias == kNone && program_.weights[m.parts[1].weight].rows == 1;
}

// Finds routers between a projection and `route`. The residual must be a dataflow value to be loaded at once, and the
// result too, because the shares wait for it. Expert numbers are written while the projection's blocks still read, so
// they need separate memory, as dataflow values have.
void Planner::find_folded_routers() {
  for_each_op(OpKind::route, [&](int i, const Op& route) {
    if (i < 2 || !steps_[i - 2].matrix() || !steps_[i - 1].matrix()) return;
    const MatrixStep &o = *steps_[i - 2].matrix(), &r = *steps_[i - 1].matrix();
    const core::ValueId scores = r.parts[0].out;
    const auto& params = std::get<core::RouteParams>(route.params);
    if (!takes_router(o) || !is_router(r) || params.groups > 1 || params.nearness > 0 || route.weights.size() > 2)
      return;
    if (r.x != o.parts[0].out || route.inputs[0] != scores || !read_once(scores)) return;
    if (!dataflow_values_[o.residual] || !dataflow_values_[r.x] || !dataflow_values_[route.outputs[0]]) return;
    const int64_t experts = program_.weights[r.parts[0].weight].rows;
    const int64_t columns = program_.weights[o.parts[0].weight].cols + program_.values[r.x].width;
    if (columns % 4 != 0 || experts > kMaxFoldedExperts || experts * columns * 4 > kMaxFoldedBytes) return;
    steps_[i - 1].folded = true;
    dataflow_values_[scores] = true;
  });
}

FoldedSizes folded_sizes(const core::Program& program, const Plan& plan, size_t step) {
  if (!plan.steps[step].folded) return {};
  const MatrixStep &r = *plan.steps[step].matrix(), &o = *plan.steps[step - 1].matrix();
  const core::Weight& router = program.weights[r.parts[0].weight];
  const int64_t width = router.cols;
  return {.experts = router.rows,
          .cols = program.weights[o.parts[0].weight].cols,
          .width = width,
          .constant = o.parts[0].bias != kNone ? core::round_up(router.rows, 4) : 0,
          .gate = r.parts.size() > 1 ? width : 0};
}

bool folds_routers(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return limits.small_batch && !config.exact && !config.batch_invariant && !config.observer;
}

int64_t folded_bytes(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                     const DeviceLimits& limits) {
  int64_t bytes = 0;
  if (folds_routers(config, limits))
    for (size_t i = 0; i < plan.steps.size(); ++i) bytes += folded_sizes(program, plan, i).bytes();
  return bytes;
}

} // namespace ridge::kernels::cuda
