// Copies part of a row given in place of a token id.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_given(Lowering& lowering, const core::Op& op) {
  const int64_t at = std::get<core::GivenParams>(op.params).first, width = lowering.info(op.outputs[0]).width;
  const int64_t row_width = lowering.program().row_width;
  float* out = lowering.value(op.outputs[0]);
  lowering.add_rows({}, lowering.slots(op.outputs), false, width,
                    [=, &batch = lowering.batch()](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t)
                        if (const int32_t token = batch.tokens[t]; token < 0)
                          std::copy_n(batch.given.data() + (-1 - token) * row_width + at, width, out + t * width);
                        else
                          std::fill_n(out + t * width, width, 0.0f);
                    });
}

} // namespace ridge::kernels::cpu
