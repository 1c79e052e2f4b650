// An activation, optionally times a factor per column.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_activate(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::ActivationParams>(op.params);
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  if (!op.weights.empty()) { // glu with factors as input
    const float* factors = lowering.vector_weight(op.weights[0]).data();
    const core::ValueInfo& info = lowering.info(op.inputs[0]);
    return lowering.add_rows(
        lowering.slots(op.inputs), lowering.slots(op.outputs), info.gathered, info.width,
        [=, &params, &vectors = vector_kernels(), width = info.width](int64_t first, int64_t last) {
          for (int64_t t = first; t < last; ++t) vectors.glu(params, x + t * width, factors, width, out + t * width);
        });
  }
  lowering.add_elements(op, [=, &params, &vectors = vector_kernels()](int64_t i, int64_t count) {
    vectors.activate(params, x + i, count, out + i);
  });
}

} // namespace ridge::kernels::cpu
