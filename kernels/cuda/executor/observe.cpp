// Shows matrices' inputs to the host, for importance matrices. 2.5 GB for an 8B model and 512 tokens take some 0.1 s.
#include "kernels/cuda/executor/launches.h"

#include <map>
#include <vector>

namespace ridge::kernels::cuda {

void KernelLauncher::run(const BatchPlan& plan, const Observe& call, const Launch& launch) {
  const MatrixStep& m = call.matrix;
  const int64_t rows = call.rows;
  const int64_t cols = program_.weights[m.parts[0].weight].cols;
  const bool experts = m.ids != kNone, per_slot = has_rows_by_slot(program_, m);
  const int64_t slots = experts ? rows * m.used : 0, count = per_slot ? slots : rows;
  const size_t bytes = 4 * (count * cols + slots);
  if (observed_.bytes() < bytes) observed_ = PinnedMemory(bytes);
  const auto* x = observed_.as<float>();
  const auto* chosen = observed_.as<int32_t>() + count * cols;
  const auto bring = [&](const void* to, const void* from, size_t size) {
    if (size > 0) RIDGE_CUDA(cudaMemcpyAsync(const_cast<void*>(to), from, size, cudaMemcpyDeviceToHost, launch.stream));
  };
  bring(x, value(plan, m.x), 4 * count * cols);
  if (experts) bring(chosen, ids(plan, m.ids), 4 * slots);
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));

  std::map<int32_t, std::vector<const float*>> rows_of_matrix;
  for (int64_t i = 0; i < (experts ? slots : rows); ++i)
    rows_of_matrix[experts ? chosen[i] : 0].push_back(x + (experts && !per_slot ? i / m.used : i) * cols);
  for (const auto& [matrix, inputs] : rows_of_matrix) config_.observer->observe(*call.op, matrix, inputs);
}

} // namespace ridge::kernels::cuda
