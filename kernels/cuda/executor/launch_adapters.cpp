// LoRA adapters in products' kernels.
#include "kernels/cuda/executor/launches.h"

namespace ridge::kernels::cuda {

AdapterArgs KernelLauncher::adapter_shape(const MatrixStep& m) const {
  AdapterArgs args;
  for (size_t i = 0; i < m.parts.size(); ++i) {
    if (m.parts[i].change.scale) args.segment[i] = adapters_[m.parts[i].change];
    args.segment[i].first = args.padded_rank;
    args.rank += args.segment[i].rank;
    args.padded_rank += args.segment[i].padded_rank;
  }
  return args;
}

AdaptedProduct KernelLauncher::adapted_product(const BatchPlan& plan, const Product& product, int64_t tokens) const {
  const MatrixStep& m = product.matrix;
  AdapterArgs args = adapter_shape(m);
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const MatrixStep::Change& change = m.parts[i].change;
    if (!change.scale) continue;
    args.segment[i].adapters = reinterpret_cast<const int32_t*>(weights_[change.scale->weights[1]].data);
    args.segment[i].sums = value(plan, change.small);
    if (program_.values[change.small].gathered) args.outputs = batch_.device().outputs;
  }
  args.uses = batch_.adapters();
  args.adapters = static_cast<int>(program_.adapters.size());
  args.positions = batch_.device().positions;
  args.streams = batch_.device().streams;
  return {matvec_args(plan, product, tokens), args};
}

bool KernelLauncher::can_adapt(const MatrixStep& m, int64_t tokens) const {
  return format_of(m).can_adapt(context_.limits(), matvec_shape(m, tokens), adapter_shape(m));
}

} // namespace ridge::kernels::cuda
