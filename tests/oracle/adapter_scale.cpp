#include "support/naive.h"

namespace ridge::tests {

void naive_adapter_scale(Naive& naive, const core::Op& op) {
  const bool gathered = naive.program().values[op.inputs[0]].gathered;
  const core::Weight& numbers = naive.program().weights[op.weights[1]];
  const auto* adapter = reinterpret_cast<const int32_t*>(numbers.data);
  const Naive::Row factors = naive.weight_row(op.weights[0], 0);
  naive.for_rows(op, [&](size_t row) {
    const size_t token = gathered ? static_cast<size_t>(naive.batch().outputs[row]) : row;
    Naive::Row y = naive.in(op, 0, row);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t column = i % factors.size();
      const core::AdapterUse use = naive.adapters(naive.stream(token))[adapter[column]];
      y[i] = naive.batch().positions[token] < use.from ? 0 : y[i] * factors[column] * use.scale;
    }
    return y;
  });
}

} // namespace ridge::tests
