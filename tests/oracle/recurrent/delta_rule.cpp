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
    const double *all_q = &naive.in(op, 0, t)[p.q_at], *all_k = &naive.in(op, 1, t)[p.k_at],
                 *v = &naive.in(op, 2, t)[p.v_at];
    const Naive::Row &alpha = naive.in(op, 3, t), &betas = naive.in(op, 4, t);
    const auto alphas = std::ssize(alpha) / p.v_heads;
    Naive::Matrix& state = naive.states(p.state, t); // [v_heads * dim][dim]
    state.resize(p.v_heads * p.dim, Naive::Row(p.dim, 0.0));
    Naive::Row y(p.v_heads * p.dim);
    for (int64_t h = 0; h < p.v_heads; ++h) {
      const int64_t k_head = p.neighbors_share ? h / (p.v_heads / p.k_heads) : h % p.k_heads;
      const Naive::Row q = normed(all_q + k_head * p.dim, p.dim, p.epsilon);
      const Naive::Row k = normed(all_k + k_head * p.dim, p.dim, p.epsilon);
      Naive::Row decay;
      for (int64_t j = 0; j < p.dim; ++j) {
        const int64_t at = alphas == 1 ? h : h * p.dim + j;
        const double x = alpha[at] + bias[at];
        const double bounded = p.least * activation_of(core::Activation::sigmoid, -a[h] * x);
        decay.push_back(std::exp(p.least < 0 ? bounded : a[h] * softplus(x)));
      }
      const double beta = activation_of(core::Activation::sigmoid, betas[h]);
      for (int64_t i = 0; i < p.dim; ++i) {
        Naive::Row& row = state[h * p.dim + i];
        double known = 0, asked = 0;
        for (int64_t j = 0; j < p.dim; ++j) known += (row[j] *= decay[j]) * k[j];
        const double change = beta * (v[h * p.dim + i] - known);
        for (int64_t j = 0; j < p.dim; ++j) asked += (row[j] += change * k[j]) * q[j];
        y[h * p.dim + i] = asked / std::sqrt(static_cast<double>(p.dim));
      }
    }
    return y;
  });
}

} // namespace ridge::tests
