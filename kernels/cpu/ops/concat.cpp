#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_concat(Lowering& lowering, const core::Op& op) {
  const int64_t first_width = lowering.info(op.inputs[0]).width, second_width = lowering.info(op.inputs[1]).width,
                width = first_width + second_width;
  const float *a = lowering.value(op.inputs[0]), *b = lowering.value(op.inputs[1]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered, width,
                    [=](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t)
                        std::copy_n(b + t * second_width, second_width,
                                    std::copy_n(a + t * first_width, first_width, out + t * width));
                    });
}

} // namespace ridge::kernels::cpu
