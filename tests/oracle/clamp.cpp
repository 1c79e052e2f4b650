#include "support/naive.h"

#include <algorithm>

namespace ridge::tests {

void naive_clamp(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::ClampParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    for (double& v : y) v = std::clamp(v, static_cast<double>(p.low), static_cast<double>(p.high));
    return y;
  });
}

} // namespace ridge::tests
