// LoRA adapters in products' kernels.
#include "kernels/cuda/executor/launches.h"

namespace ridge::kernels::cuda {

AdapterArgs KernelLauncher::adapter_args(const BatchPlan& plan, const MatrixStep& m) const {
  const MatrixStep::Change* change = m.change();
  if (!change) return {};
  AdapterArgs args = adapters_[*change];
  args.sums = value(plan, change->small);
  if (program_.values[change->small].gathered) args.outputs = batch_.device().outputs;
  args.uses = batch_.adapters();
  args.stream_adapters = static_cast<int>(program_.adapters.size());
  args.positions = batch_.device().positions;
  args.streams = batch_.device().streams;
  return args;
}

} // namespace ridge::kernels::cuda
