// delta_rule: S forgets, then learns to map this token's key to its value, and is asked with the token's query.
#include "support/activation.h"
#include "support/naive.h"

namespace ridge::tests {
namespace {

Naive::Row normed(const double* x, int64_t dim, double epsilon) {
  double squares = epsilon;
  for (int64_t i = 0; i < dim; ++i) squares += x[i] * x[i];
  Naive::Row y(x, x + dim);
  for (double& v : y) v /= std::sqrt(squares);
  return y;
}

} // namespace

void naive_delta_rule(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::DeltaParams>(op.params);
  const Naive::Row a = naive.weight_row(op.weights[0], 0), bias = naive.weight_row(op.weights[1], 0);
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& qkv = naive.in(op, 0, t);
    Naive::Matrix& state = naive.states(p.state, t); // [v_heads * dim][dim]
    state.resize(p.v_heads * p.dim, Naive::Row(p.dim, 0.0));
    Naive::Row y(p.v_heads * p.dim);
    for (int64_t h = 0; h < p.v_heads; ++h) {
      const int64_t k_head = p.neighbors_share ? h / (p.v_heads / p.k_heads) : h % p.k_heads;
      const Naive::Row q = normed(&qkv[k_head * p.dim], p.dim, p.epsilon);
      const Naive::Row k = normed(&qkv[(p.k_heads + k_head) * p.dim], p.dim, p.epsilon);
      const double decay = std::exp(a[h] * softplus(naive.in(op, 1, t)[h] + bias[h]));
      const double beta = activation_of(core::Activation::sigmoid, naive.in(op, 2, t)[h]);
      for (int64_t i = 0; i < p.dim; ++i) {
        Naive::Row& row = state[h * p.dim + i];
        double known = 0, asked = 0;
        for (int64_t j = 0; j < p.dim; ++j) known += (row[j] *= decay) * k[j];
        const double change = beta * (qkv[(2 * p.k_heads + h) * p.dim + i] - known);
        for (int64_t j = 0; j < p.dim; ++j) asked += (row[j] += change * k[j]) * q[j];
        y[h * p.dim + i] = asked / std::sqrt(static_cast<double>(p.dim));
      }
    }
    return y;
  });
}

} // namespace ridge::tests
