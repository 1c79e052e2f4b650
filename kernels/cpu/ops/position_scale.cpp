#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {

void lower_position_scale(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::PositionScaleParams>(op.params);
  const int64_t width = lowering.info(op.inputs[0]).width;
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), false, width,
                    [=, &batch = lowering.batch()](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t) {
                        const int64_t steps = (batch.positions[t] + params.offset) / params.step;
                        const float factor = 1 + params.scale * std::log1p(static_cast<float>(steps));
                        std::transform(x + t * width, x + (t + 1) * width, out + t * width,
                                       [factor](float v) { return factor * v; });
                      }
                    });
}

} // namespace ridge::kernels::cpu
