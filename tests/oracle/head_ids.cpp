#include "support/naive.h"

#include <numeric>

namespace ridge::tests {

void naive_head_ids(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t) {
    Naive::Row ids(naive.program().values[op.outputs[0]].width);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  });
}

} // namespace ridge::tests
