// conv1d: per channel, the taps times the last inputs of the token's stream; inputs before the first token are zero.
#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {

void naive_conv1d(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::ConvParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    Naive::Matrix& inputs = naive.states(p.state, t);
    inputs.push_back(naive.in(op, 0, t));
    Naive::Row y(inputs.back().size());
    for (size_t c = 0; c < y.size(); ++c) {
      const Naive::Row taps = naive.weight_row(op.weights[0], static_cast<int64_t>(c));
      double sum = op.weights.size() > 1 ? naive.weight_row(op.weights[1], 0)[c] : 0;
      for (size_t tap = 0; tap < taps.size() && tap < inputs.size(); ++tap)
        sum += taps[taps.size() - 1 - tap] * inputs[inputs.size() - 1 - tap][c];
      y[c] = activation_of(p.activation, sum);
    }
    return y;
  });
}

} // namespace ridge::tests
