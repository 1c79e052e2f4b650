// Copies the rows of tokens that need logits.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_gather(Lowering& lowering, const core::Op& op) {
  const int64_t width = lowering.info(op.inputs[0]).width;
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), true, width,
                    [=, &batch = lowering.batch()](int64_t first, int64_t last) {
                      for (int64_t i = first; i < last; ++i)
                        std::copy_n(x + batch.outputs[i] * width, width, out + i * width);
                    });
}

} // namespace ridge::kernels::cpu
