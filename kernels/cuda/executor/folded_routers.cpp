#include "kernels/cuda/executor/folded_routers.h"

#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/plan/folded_routers.h"

#include <algorithm>
#include <numeric>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kDecodedBytes = 64 << 20;

void decode(const Launch& launch, const core::Weight& w, const DeviceWeight& weight, const int32_t* ids, int64_t count,
            float* out) {
  format_kernels(w.type).embed(launch, weight.data, w.cols, ids, static_cast<int>(count), out);
}

} // namespace

FoldedRouters::FoldedRouters(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                             const DeviceLimits& limits) {
  const int64_t bytes = folded_bytes(program, config, plan, limits);
  if (bytes == 0) return;
  memory_ = DeviceMemory(bytes, "the routers' folded matrices");
  routers_.resize(plan.steps.size());
  auto* at = memory_.as<float>();
  const auto take = [&](int64_t floats) { return floats > 0 ? std::exchange(at, at + floats) : nullptr; };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const FoldedSizes sizes = folded_sizes(program, plan, i);
    routers_[i] = {take(sizes.matrix()), take(sizes.constant), take(sizes.gate)};
  }
}

void FoldedRouters::make(const core::Program& program, const Plan& plan, const DeviceWeights& weights,
                         const Launch& launch) const {
  if (empty()) return;
  int64_t most_rows = 0, most_cols = 0, router_floats = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (const FoldedSizes sizes = folded_sizes(program, plan, i); sizes.experts > 0) {
      most_rows = std::max({most_rows, sizes.experts, sizes.width});
      most_cols = std::max(most_cols, sizes.cols);
      router_floats = std::max(router_floats, sizes.experts * sizes.width);
    }
  const int64_t rows_at_once = std::clamp<int64_t>(kDecodedBytes / (most_cols * kFloatBytes), 1, most_rows);
  const DeviceMemory decoded(rows_at_once * most_cols * kFloatBytes, "the upload buffer"),
      router(router_floats * kFloatBytes, "the upload buffer"), ids(most_rows * kFloatBytes, "the upload buffer");
  std::vector<int32_t> rows(most_rows);
  std::iota(rows.begin(), rows.end(), 0);
  RIDGE_CUDA(cudaMemcpyAsync(ids.as(), rows.data(), ids.bytes(), cudaMemcpyHostToDevice, launch.stream));

  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const FoldedSizes sizes = folded_sizes(program, plan, i);
    if (sizes.experts == 0) continue;
    const MatrixStep &r = *plan.steps[i].matrix(), &o = *plan.steps[i - 1].matrix();
    const auto part = [&](const MatrixStep& m, size_t p, int64_t first, int64_t count, float* out) {
      const core::WeightId id = m.parts[p].weight;
      decode(launch, program.weights[id], weights[id], ids.as<int32_t>() + first, count, out);
    };
    part(r, 0, 0, sizes.experts, router.as<float>());
    if (routers_[i].gate) part(r, 1, 0, 1, routers_[i].gate);
    FoldedRows fold = {.o = decoded.as<float>(),
                       .r = router.as<float>(),
                       .norm = weights.vector(r.norm),
                       .bias = weights.vector(o.parts[0].bias),
                       .experts = static_cast<int>(sizes.experts),
                       .cols = static_cast<int>(sizes.cols),
                       .width = static_cast<int>(sizes.width)};
    fold_norm(launch, routers_[i], fold);
    for (int64_t first = 0; first < sizes.width; first += rows_at_once) {
      fold.first = static_cast<int>(first);
      fold.count = static_cast<int>(std::min(rows_at_once, sizes.width - first));
      part(o, 0, first, fold.count, decoded.as<float>());
      fold_rows(launch, routers_[i], fold);
    }
  }
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
}

} // namespace ridge::kernels::cuda
