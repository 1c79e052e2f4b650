#include "support/naive.h"

#include <cmath>

namespace ridge::tests {

void naive_position_scale(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::PositionScaleParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    const double position = naive.batch().positions[t] + static_cast<double>(p.offset);
    for (double& v : y) v *= 1 + p.scale * std::log(1 + std::floor(position / static_cast<double>(p.step)));
    return y;
  });
}

} // namespace ridge::tests
