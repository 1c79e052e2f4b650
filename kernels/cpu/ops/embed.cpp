// Embeds token ids or positions; given rows replace the result.
#include "core/error.h"
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_embed(Lowering& lowering, const core::Op& op) {
  const core::Weight& table = lowering.weight(op.weights[0]);
  const quant::FormatInfo& format = format_of(table);
  const auto params = std::get<core::EmbedParams>(op.params);
  const int64_t vocab = lowering.program().vocab, given_width = lowering.program().row_width;
  if (!params.of_positions && table.rows < vocab)
    throw_error("tensor {}: {} rows for a vocabulary of {}", table.name, table.rows, vocab);
  float* out = lowering.value(op.outputs[0]);
  const float* bias = op.weights.size() > 1 ? lowering.vector_weight(op.weights[1]).data() : nullptr;
  lowering.add_rows({}, lowering.slots(op.outputs), false, table.cols,
                    [=, &table, &format, &batch = lowering.batch(),
                     &rows = params.of_positions ? lowering.batch().positions : lowering.batch().tokens](int64_t first,
                                                                                                         int64_t last) {
                      for (int64_t t = first; t < last; ++t) {
                        float* row = out + t * table.cols;
                        float scale = params.scale;
                        if (rows[t] >= 0 || params.rows == core::RowUse::none) {
                          format.decode(table.row(std::max(rows[t], 0)), table.cols, row);
                        } else {
                          std::copy_n(batch.given.data() + (-1 - rows[t]) * given_width, table.cols, row);
                          if (params.rows == core::RowUse::unscaled) scale = 1;
                        }
                        if (scale != 1)
                          for (int64_t i = 0; i < table.cols; ++i) row[i] *= scale;
                        for (int64_t i = 0; bias && i < table.cols; ++i) row[i] += bias[i];
                      }
                    });
}

} // namespace ridge::kernels::cpu
