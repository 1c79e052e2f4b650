// Slot numbers for expert_linear with a matrix per head.
#include "kernels/cpu/executor/lowering.h"

#include <numeric>

namespace ridge::kernels::cpu {

void lower_head_ids(Lowering& lowering, const core::Op& op) {
  const int64_t count = lowering.info(op.outputs[0]).width;
  auto* ids = reinterpret_cast<int32_t*>(lowering.value(op.outputs[0]));
  const bool gathered = lowering.info(op.outputs[0]).gathered;
  lowering.add_rows({}, lowering.slots(op.outputs), gathered, count, [=](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) std::iota(ids + t * count, ids + (t + 1) * count, 0);
  });
}

} // namespace ridge::kernels::cpu
