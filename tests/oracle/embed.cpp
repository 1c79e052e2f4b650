// embed: the table's row of each token.
#include "support/naive.h"

namespace ridge::tests {

void naive_embed(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) { return naive.weight_row(op.weights[0], naive.batch().tokens[t]); });
}

} // namespace ridge::tests
