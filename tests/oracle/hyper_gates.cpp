#include "support/activation.h"
#include "support/naive.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {

void naive_hyper_gates(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::HyperParams>(op.params);
  const Naive::Row scale = naive.weight_row(op.weights[0], 0), base = naive.weight_row(op.weights[1], 0);
  naive.value(op.outputs[1]).clear();
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& x = naive.in(op, 0, t);
    const auto affine = [&](int64_t part, int64_t i) { return x[i] * scale[part] + base[i]; };
    Naive::Row in, out;
    for (int64_t i = 0; i < p.count; ++i)
      in.push_back(activation_of(core::Activation::sigmoid, affine(0, i)) + p.epsilon);
    for (int64_t i = p.count; i < 2 * p.count; ++i)
      out.push_back(p.magnitude * activation_of(core::Activation::sigmoid, affine(1, i)) + p.out_epsilon);

    const int64_t rows = p.iterations > 0 ? p.count : 0;
    Naive::Matrix matrix(rows, Naive::Row(p.count)); // [from][to]
    for (int64_t from = 0; from < rows; ++from) {
      double sum = 0;
      for (int64_t to = 0; to < p.count; ++to) sum += matrix[from][to] = std::exp(affine(2, (2 + from) * p.count + to));
      for (double& m : matrix[from]) m = m / sum + p.epsilon;
    }
    for (int64_t round = 0; round < p.iterations; ++round) {
      for (int64_t from = 0; from < p.count && round > 0; ++from) {
        double sum = p.epsilon;
        for (const double m : matrix[from]) sum += m;
        for (double& m : matrix[from]) m /= sum;
      }
      for (int64_t to = 0; to < p.count; ++to) {
        double sum = p.epsilon;
        for (const Naive::Row& row : matrix) sum += row[to];
        for (Naive::Row& row : matrix) row[to] /= sum;
      }
    }
    for (const Naive::Row& row : matrix) out.insert(out.end(), row.begin(), row.end());
    naive.value(op.outputs[1]).push_back(out);
    return in;
  });
}

} // namespace ridge::tests
