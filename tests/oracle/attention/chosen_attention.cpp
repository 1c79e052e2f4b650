#include "support/naive.h"

#include <algorithm>

namespace ridge::tests {

void naive_chosen_attention(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& chosen = naive.in(op, 2, t);
    if (chosen[0] < 0) return Naive::Row(naive.program().values[op.outputs[0]].width);
    return attend_to_latent_keys(naive, op, t, {chosen.begin(), std::ranges::find(chosen, -1.0)});
  });
}

} // namespace ridge::tests
