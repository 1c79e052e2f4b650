// embed: the table's row of each token, or of each position, scaled.
#include "support/naive.h"

namespace ridge::tests {

void naive_embed(Naive& naive, const core::Op& op) {
  const auto [scale, of_positions] = std::get<core::EmbedParams>(op.params);
  naive.for_rows(op, [&, scale = scale, of_positions = of_positions](size_t t) {
    Naive::Row y = naive.weight_row(op.weights[0], (of_positions ? naive.batch().positions : naive.batch().tokens)[t]);
    for (double& v : y) v *= scale;
    return y;
  });
}

} // namespace ridge::tests
