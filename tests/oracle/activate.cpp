#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {

void naive_activate(Naive& naive, const core::Op& op) {
  const auto& params = std::get<core::ActivationParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    const Naive::Row factors = op.weights.empty() ? Naive::Row(y.size(), 1.0) : naive.weight_row(op.weights[0], 0);
    for (double& v : y) {
      if (params.limit > 0) v = std::clamp(v, -static_cast<double>(params.limit), static_cast<double>(params.limit));
      v = activation_of(params, v);
    }
    for (size_t i = 0; i < y.size(); ++i) y[i] *= factors[i];
    return y;
  });
}

} // namespace ridge::tests
