#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_rms_norm(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::NormParams>(op.params);
  const int64_t width = lowering.info(op.inputs[0]).width;
  const float *x = lowering.value(op.inputs[0]), *weight = lowering.vector_weight(op.weights[0]).data();
  const int64_t weights = lowering.weight(op.weights[0]).cols;
  float* out = lowering.value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered, width,
                    [=, &vectors](int64_t first, int64_t last) {
                      for (int64_t i = first * width; i < last * width; i += params.group)
                        vectors.rms_norm(x + i, weight + i % weights, params.group, params.epsilon, out + i);
                    });
}

} // namespace ridge::kernels::cpu
