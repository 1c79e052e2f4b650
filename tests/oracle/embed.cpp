// embed: the table's row of each token, or of each position, scaled, and the bias.
#include "support/naive.h"

namespace ridge::tests {

void naive_embed(Naive& naive, const core::Op& op) {
  const auto [scale, of_positions] = std::get<core::EmbedParams>(op.params);
  const Naive::Row bias = op.weights.size() > 1 ? naive.weight_row(op.weights[1], 0) : Naive::Row();
  naive.for_rows(op, [&, scale = scale, of_positions = of_positions](size_t t) {
    Naive::Row y = naive.weight_row(op.weights[0], (of_positions ? naive.batch().positions : naive.batch().tokens)[t]);
    for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * scale + (bias.empty() ? 0 : bias[i]);
    return y;
  });
}

} // namespace ridge::tests
