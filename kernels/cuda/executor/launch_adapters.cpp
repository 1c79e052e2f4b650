// LoRA adapters in products' kernels.
#include "kernels/cuda/executor/launches.h"

namespace ridge::kernels::cuda {

AdapterArgs KernelLauncher::adapter_args(const BatchPlan& plan, const MatrixStep& m) const {
  AdapterArgs args;
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Change& change = m.parts[i].change;
    AdapterSegment& segment = args.segment[i];
    if (change.scale) {
      segment = adapters_[change];
      segment.adapters = reinterpret_cast<const int32_t*>(weights_[change.scale->weights[1]].data);
      segment.sums = value(plan, change.small);
      if (program_.values[change.small].gathered) args.outputs = batch_.device().outputs;
    }
    segment.first = args.padded_rank;
    args.rank += segment.rank;
    args.padded_rank += segment.padded_rank;
  }
  args.uses = batch_.adapters();
  args.adapters = static_cast<int>(program_.adapters.size());
  args.positions = batch_.device().positions;
  args.streams = batch_.device().streams;
  return args;
}

} // namespace ridge::kernels::cuda
