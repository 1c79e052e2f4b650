// embed: the table's row of each token, scaled.
#include "support/naive.h"

namespace ridge::tests {

void naive_embed(Naive& naive, const core::Op& op) {
  const double scale = std::get<core::EmbedParams>(op.params).scale;
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.weight_row(op.weights[0], naive.batch().tokens[t]);
    for (double& v : y) v *= scale;
    return y;
  });
}

} // namespace ridge::tests
