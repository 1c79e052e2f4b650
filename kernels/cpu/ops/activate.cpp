// An activation of every element.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_activate(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::ActivationParams>(op.params);
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_elements(op, [=, &params, &vectors = vector_kernels()](int64_t i, int64_t count) {
    vectors.activate(params, x + i, count, out + i);
  });
}

} // namespace ridge::kernels::cpu
