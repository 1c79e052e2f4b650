#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_clamp(Lowering& lowering, const core::Op& op) {
  const auto [low, high] = std::get<core::ClampParams>(op.params);
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  lowering.add_elements(op, [=, low = low, high = high](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) out[i] = std::clamp(x[i], low, high);
  });
}

} // namespace ridge::kernels::cpu
