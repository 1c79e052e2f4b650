// Adds a block's output to residual streams, optionally mixed.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_hyper_join(Lowering& lowering, const core::Op& op) {
  const int64_t width = lowering.info(op.inputs[0]).width, count = lowering.info(op.inputs[1]).width / width;
  const float *y = lowering.value(op.inputs[0]), *x = lowering.value(op.inputs[1]),
              *gates = lowering.value(op.inputs[2]);
  const int64_t gate_width = lowering.info(op.inputs[2]).width;
  const bool mixes = gate_width > count;
  float* out = lowering.value(op.outputs[0]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered,
                    count * count * width, [=, &vectors = vector_kernels()](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t) {
                        const float *gate = gates + t * gate_width, *matrix = gate + count;
                        for (int64_t to = 0; to < count; ++to) {
                          float* sum = out + (t * count + to) * width;
                          if (!mixes) {
                            vectors.add(x + (t * count + to) * width, y + t * width, gate[to], width, sum);
                            continue;
                          }
                          std::fill_n(sum, width, 0.0f);
                          vectors.scale_add(y + t * width, gate[to], width, sum);
                          for (int64_t from = 0; from < count; ++from)
                            vectors.scale_add(x + (t * count + from) * width, matrix[from * count + to], width, sum);
                        }
                      }
                    });
}

} // namespace ridge::kernels::cpu
