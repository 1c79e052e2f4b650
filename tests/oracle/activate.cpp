// activate: an activation of every element.
#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {

void naive_activate(Naive& naive, const core::Op& op) {
  const auto& params = std::get<core::ActivationParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    Naive::Row y = naive.in(op, 0, t);
    for (double& v : y) {
      if (params.limit > 0) v = std::clamp(v, -static_cast<double>(params.limit), static_cast<double>(params.limit));
      v = activation_of(params, v);
    }
    return y;
  });
}

} // namespace ridge::tests
