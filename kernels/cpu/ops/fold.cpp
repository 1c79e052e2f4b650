// Sums the parts of each row, times a factor.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_fold(Lowering& lowering, const core::Op& op) {
  const float scale = std::get<core::FoldParams>(op.params).scale;
  const int64_t width = lowering.info(op.outputs[0]).width, all = lowering.info(op.inputs[0]).width;
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered, all,
                    [=, &vectors = vector_kernels()](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t) {
                        float* y = out + t * width;
                        std::fill_n(y, width, 0.0f);
                        for (int64_t at = 0; at < all; at += width)
                          vectors.scale_add(x + t * all + at, scale, width, y);
                      }
                    });
}

} // namespace ridge::kernels::cpu
