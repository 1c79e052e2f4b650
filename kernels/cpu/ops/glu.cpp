// One gate per element or several.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_glu(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::ActivationParams>(op.params);
  const int64_t gates = lowering.info(op.inputs[0]).width, width = lowering.info(op.inputs[1]).width;
  const float *gate = lowering.value(op.inputs[0]), *x = lowering.value(op.inputs[1]);
  float* out = lowering.value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  if (gates == width)
    return lowering.add_elements(
        op, [=, &params, &vectors](int64_t i, int64_t count) { vectors.glu(params, gate + i, x + i, count, out + i); });
  const int64_t shared = width / gates;
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered, width,
                    [=, &params, &vectors](int64_t first, int64_t last) {
                      std::vector<float> same(shared);
                      for (int64_t g = first * gates; g < last * gates; ++g) {
                        std::ranges::fill(same, gate[g]);
                        vectors.glu(params, same.data(), x + g * shared, shared, out + g * shared);
                      }
                    });
}

} // namespace ridge::kernels::cpu
