// An activation of every element.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_activate(Lowering& lowering, const core::Op& op) {
  const core::Activation kind = std::get<core::ActivationParams>(op.params).kind;
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_elements(op, [=, &vectors = vector_kernels()](int64_t i, int64_t count) {
    vectors.activate(kind, x + i, count, out + i);
  });
}

} // namespace ridge::kernels::cpu
