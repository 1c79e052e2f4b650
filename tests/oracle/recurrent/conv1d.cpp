#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {

void naive_conv1d(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::ConvParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    Naive::Matrix& inputs = naive.states(p.state, t);
    inputs.push_back(naive.in(op, 0, t));
    Naive::Matrix seen = inputs;
    for (size_t later = t + 1; later < naive.batch().tokens.size() && seen.size() < inputs.size() + p.ahead; ++later)
      if (naive.stream(later) == naive.stream(t)) seen.push_back(naive.in(op, 0, later));
    seen.resize(inputs.size() + p.ahead, Naive::Row(inputs.back().size()));
    Naive::Row y(inputs.back().size());
    for (size_t c = 0; c < y.size(); ++c) {
      const Naive::Row taps = naive.weight_row(op.weights[0], static_cast<int64_t>(c));
      double sum = op.weights.size() > 1 ? naive.weight_row(op.weights[1], 0)[c] : 0;
      for (size_t tap = 0; tap < taps.size() && tap < seen.size(); ++tap)
        sum += taps[taps.size() - 1 - tap] * seen[seen.size() - 1 - tap][c];
      y[c] = activation_of(p.activation, sum);
    }
    return y;
  });
}

} // namespace ridge::tests
