#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_add(Lowering& lowering, const core::Op& op) {
  const float *a = lowering.value(op.inputs[0]), *b = lowering.value(op.inputs[1]);
  const float scale = std::get<core::AddParams>(op.params).scale;
  float* out = lowering.value(op.outputs[0]);
  lowering.add_elements(op, [=, &vectors = vector_kernels()](int64_t i, int64_t count) {
    vectors.add(a + i, b + i, scale, count, out + i);
  });
}

} // namespace ridge::kernels::cpu
