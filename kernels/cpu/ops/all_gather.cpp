// A single thread runs it, because it waits for other ranks.
#include "core/parallel/communicator.h"
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_all_gather(Lowering& lowering, const core::Op& op) {
  const core::ValueId in = op.inputs[0], all = op.outputs[0];
  const float* x = lowering.value(in);
  float* out = lowering.value(all);
  const int64_t first = std::get<core::RankParams>(op.params).first;
  lowering.schedule().add(
      lowering.slots(op.inputs), lowering.slots(op.outputs), [] { return 1; },
      [=, &lowering](int64_t, int) {
        const int64_t part = lowering.info(in).width, width = lowering.info(all).width;
        const int64_t rows = lowering.batch().rows(lowering.info(in).gathered);
        if (core::Communicator* others = lowering.config().communicator)
          return others->all_gather({x, static_cast<size_t>(rows * part)}, rows, first,
                                    {out, static_cast<size_t>(rows * width)});
        std::copy_n(x, rows * part, out);
      });
}

} // namespace ridge::kernels::cpu
