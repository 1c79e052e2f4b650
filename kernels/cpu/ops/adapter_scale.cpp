// Scales columns by adapter, stream and position.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_adapter_scale(Lowering& lowering, const core::Op& op) {
  const core::ValueInfo& input = lowering.info(op.inputs[0]);
  const core::Weight& numbers = lowering.weight(op.weights[1]);
  const int64_t width = input.width, columns = numbers.cols, adapters = std::ssize(lowering.program().adapters);
  const auto* adapter = reinterpret_cast<const int32_t*>(numbers.data);
  const float *x = lowering.value(op.inputs[0]), *factors = lowering.vector_weight(op.weights[0]).data();
  float* out = lowering.value(op.outputs[0]);
  const bool gathered = input.gathered;
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), gathered, width,
                    [=, &batch = lowering.batch()](int64_t first, int64_t last) {
                      for (int64_t row = first; row < last; ++row) {
                        const int64_t t = gathered ? batch.outputs[row] : row;
                        const core::AdapterUse* uses = &batch.adapters[batch.streams[t] * adapters];
                        for (int64_t i = 0; i < width; ++i) {
                          const float scale = uses[adapter[i % columns]].at(batch.positions[t]);
                          // Avoids 0 × infinity.
                          out[row * width + i] = scale == 0 ? 0 : x[row * width + i] * (scale * factors[i % columns]);
                        }
                      }
                    });
}

} // namespace ridge::kernels::cpu
