#include "support/naive.h"

namespace ridge::tests {

void naive_hyper_join(Naive& naive, const core::Op& op) {
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row &y = naive.in(op, 0, t), &x = naive.in(op, 1, t), &gates = naive.in(op, 2, t);
    const size_t width = y.size(), count = x.size() / width;
    Naive::Row out(x.size());
    for (size_t to = 0; to < count; ++to)
      for (size_t i = 0; i < width; ++i) {
        double sum = gates[to] * y[i];
        if (gates.size() == count) sum += x[to * width + i];
        for (size_t from = 0; from < count && gates.size() > count; ++from)
          sum += gates[count + from * count + to] * x[from * width + i];
        out[to * width + i] = sum;
      }
    return out;
  });
}

} // namespace ridge::tests
