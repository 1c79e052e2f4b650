// A gate, element by element, or one gate for several neighbours.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_glu(Lowering& lowering, const core::Op& op) {
  const core::Activation kind = std::get<core::ActivationParams>(op.params).kind;
  const int64_t gates = lowering.info(op.inputs[0]).width, width = lowering.info(op.inputs[1]).width;
  const float *gate = lowering.value(op.inputs[0]), *x = lowering.value(op.inputs[1]);
  float* out = lowering.value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  if (gates == width)
    return lowering.add_elements(
        op, [=, &vectors](int64_t i, int64_t count) { vectors.glu(kind, gate + i, x + i, count, out + i); });
  const int64_t shared = width / gates; // elements of a gate
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered, width,
                    [=, &vectors](int64_t first, int64_t last) {
                      for (int64_t g = first * gates; g < last * gates; ++g) {
                        float factor = 0;
                        vectors.activate(kind, gate + g, 1, &factor);
                        std::transform(x + g * shared, x + (g + 1) * shared, out + g * shared,
                                       [factor](float v) { return factor * v; });
                      }
                    });
}

} // namespace ridge::kernels::cpu
