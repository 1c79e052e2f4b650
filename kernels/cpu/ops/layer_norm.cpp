// Per group; keeps the mean unless `centered`.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_layer_norm(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::NormParams>(op.params);
  const int64_t width = lowering.info(op.inputs[0]).width;
  const float *x = lowering.value(op.inputs[0]), *weight = lowering.vector_weight(op.weights[0]).data();
  const float* bias = op.weights.size() > 1 ? lowering.vector_weight(op.weights[1]).data() : nullptr;
  const int64_t weights = lowering.weight(op.weights[0]).cols; // shared by all groups, or per group
  float* out = lowering.value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered, width,
                    [=, &vectors](int64_t first, int64_t last) {
                      for (int64_t i = first * width; i < last * width; i += params.group)
                        vectors.layer_norm(x + i, weight + i % weights, bias ? bias + i % weights : nullptr,
                                           params.group, params.epsilon, params.centered, out + i);
                    });
}

} // namespace ridge::kernels::cpu
