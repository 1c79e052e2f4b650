#include "support/naive.h"

#include <algorithm>

namespace ridge::tests {

void naive_embed(Naive& naive, const core::Op& op) {
  const auto& params = std::get<core::EmbedParams>(op.params);
  const Naive::Row bias = op.weights.size() > 1 ? naive.weight_row(op.weights[1], 0) : Naive::Row();
  naive.for_rows(op, [&](size_t t) {
    const int32_t row = (params.of_positions ? naive.batch().positions : naive.batch().tokens)[t];
    Naive::Row y = naive.weight_row(op.weights[0], std::max(row, 0));
    const bool given = row < 0 && params.rows != core::RowUse::none;
    for (size_t i = 0; given && i < y.size(); ++i)
      y[i] = naive.batch().rows[(-1 - row) * naive.program().row_width + static_cast<int64_t>(i)];
    const double scale = given && params.rows == core::RowUse::unscaled ? 1 : params.scale;
    for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * scale + (bias.empty() ? 0 : bias[i]);
    return y;
  });
}

} // namespace ridge::tests
