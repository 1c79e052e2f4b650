// glu: activation(gate) * x; a gate is for as many neighbours in x as it takes.
#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {

void naive_glu(Naive& naive, const core::Op& op) {
  const core::Activation kind = std::get<core::ActivationParams>(op.params).kind;
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& gate = naive.in(op, 0, t);
    Naive::Row y = naive.in(op, 1, t);
    for (size_t i = 0; i < y.size(); ++i) y[i] *= activation_of(kind, gate[i / (y.size() / gate.size())]);
    return y;
  });
}

} // namespace ridge::tests
