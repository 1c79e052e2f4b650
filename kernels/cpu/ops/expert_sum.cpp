#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_expert_sum(Lowering& lowering, const core::Op& op) {
  const core::ValueInfo& output = lowering.info(op.outputs[0]);
  const int64_t used = std::get<core::ExpertParams>(op.params).used, sums = lowering.info(op.inputs[1]).width / used;
  const int64_t width = output.width / sums;
  const float *x = lowering.value(op.inputs[0]), *shares = lowering.value(op.inputs[1]);
  float* out = lowering.value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), output.gathered, used * output.width,
                    [=, &vectors](int64_t first, int64_t last) {
                      for (int64_t i = first * sums; i < last * sums; ++i) {
                        std::fill_n(out + i * width, width, 0.0f);
                        for (int64_t s = 0; s < used; ++s)
                          vectors.scale_add(x + (i / sums * used + s) * width, shares[i * used + s], width,
                                            out + i * width);
                      }
                    });
}

} // namespace ridge::kernels::cpu
