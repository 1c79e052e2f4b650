// The gate of a feed-forward layer, element by element.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_swiglu(Lowering& lowering, const core::Op& op) {
  const float *gate = lowering.value(op.inputs[0]), *up = lowering.value(op.inputs[1]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_elements(op, [=, &vectors = vector_kernels()](int64_t i, int64_t count) {
    vectors.swiglu(gate + i, up + i, count, out + i);
  });
}

} // namespace ridge::kernels::cpu
