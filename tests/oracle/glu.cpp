#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {

void naive_glu(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::ActivationParams>(op.params);
  const double limit = p.limit > 0 ? p.limit : INFINITY;
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& gate = naive.in(op, 0, t);
    Naive::Row y = naive.in(op, 1, t);
    for (size_t i = 0; i < y.size(); ++i) {
      const double g = gate[i / (y.size() / gate.size())];
      const double activated =
          p.limits_activated ? std::min(activation_of(p, g), limit) : activation_of(p, std::min(g, limit));
      y[i] = activated * (std::clamp(y[i], -limit, limit) + p.shift);
    }
    return y;
  });
}

} // namespace ridge::tests
