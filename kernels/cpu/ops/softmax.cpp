#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {

void lower_softmax(Lowering& lowering, const core::Op& op) {
  const int64_t width = lowering.info(op.inputs[0]).width;
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered,
                    8 * width, [=](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t) {
                        const float* row = x + t * width;
                        const float largest = *std::max_element(row, row + width);
                        float sum = 0, *y = out + t * width;
                        for (int64_t i = 0; i < width; ++i) sum += y[i] = std::exp(row[i] - largest);
                        for (int64_t i = 0; i < width; ++i) y[i] /= sum;
                      }
                    });
}

} // namespace ridge::kernels::cpu
