#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_permute(Lowering& lowering, const core::Op& op) {
  const core::Weight& picks = lowering.weight(op.weights[0]);
  const core::ValueInfo& input = lowering.info(op.inputs[0]);
  const int64_t group = std::get<core::PermuteParams>(op.params).group, groups = input.width / group;
  const int64_t columns = picks.cols;
  const float* x = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  const auto* order = reinterpret_cast<const int32_t*>(picks.data);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), input.gathered, groups * columns,
                    [=](int64_t first, int64_t last) {
                      for (int64_t g = first * groups; g < last * groups; ++g)
                        for (int64_t i = 0; i < columns; ++i) out[g * columns + i] = x[g * group + order[i]];
                    });
}

} // namespace ridge::kernels::cpu
