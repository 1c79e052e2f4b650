#include "support/naive.h"

namespace ridge::tests {

void naive_given(Naive& naive, const core::Op& op) {
  const int64_t first = std::get<core::GivenParams>(op.params).first;
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y(naive.program().values[op.outputs[0]].width);
    const int32_t token = naive.batch().tokens[t];
    for (size_t i = 0; token < 0 && i < y.size(); ++i)
      y[i] = naive.batch().rows[(-1 - token) * naive.program().row_width + first + static_cast<int64_t>(i)];
    return y;
  });
}

} // namespace ridge::tests
