#include "support/activation.h"
#include "support/naive.h"

#include <cstring>
#include <numeric>

namespace ridge::tests {
namespace {

// `scores`, -infinity outside the best groups.
Naive::Row of_best_groups(const core::RouteParams& p, Naive::Row scores) {
  const int64_t size = p.experts / p.groups;
  std::vector<std::pair<double, int64_t>> groups;
  for (int64_t g = 0; g < p.groups; ++g) {
    Naive::Row group(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    std::ranges::sort(group, std::greater());
    groups.emplace_back(-(group[0] + (size > 1 ? group[1] : 0)), g);
  }
  std::ranges::sort(groups);
  for (int64_t i = p.groups_used; i < p.groups; ++i)
    std::fill_n(scores.begin() + groups[i].second * size, size, -INFINITY);
  return scores;
}

// The sparse mixer: experts are taken one by one; each gets its softmax among those left that are near it.
Naive::Row near_shares(const core::RouteParams& p, const Naive::Row& scores) {
  Naive::Row shares(scores.size());
  std::vector<size_t> left(scores.size());
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    const auto best = std::ranges::max_element(left, {}, [&](size_t e) { return scores[e]; });
    const double largest = scores[*best];
    double all = 0;
    for (const size_t e : left)
      if (!((largest - scores[e]) / std::max(std::abs(scores[e]), largest) > p.nearness)) // zeros are near
        all += std::exp(scores[e] - largest);
    shares[*best] = 1 / all;
    left.erase(best);
  }
  return shares;
}

} // namespace

void naive_route(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::RouteParams>(op.params);
  naive.for_rows(op, [&](size_t t) {
    const Naive::Row& x = naive.in(op, 0, t);
    const double largest = *std::ranges::max_element(x);
    double all = 0;
    for (double e : x) all += std::exp(e - largest);
    Naive::Row shares_of_all = x, choice;
    for (double& e : shares_of_all) {
      if (p.gate == core::Gate::softmax) e = std::exp(e - largest) / all;
      if (p.gate == core::Gate::sigmoid) e = activation_of(core::Activation::sigmoid, e);
      if (p.gate == core::Gate::root_softplus) e = std::sqrt(activation_of(core::Activation::softplus, e));
    }
    if (p.nearness > 0) shares_of_all = near_shares(p, x);
    choice = p.by_score ? x : shares_of_all;
    if (p.by_sigmoid)
      for (size_t e = 0; e < x.size(); ++e) choice[e] = activation_of(core::Activation::sigmoid, x[e]);
    if (!op.weights.empty()) {
      const Naive::Row bias = naive.weight_row(op.weights[0], 0);
      for (size_t e = 0; e < choice.size(); ++e) choice[e] += bias[e];
    }
    if (p.groups > 1) choice = of_best_groups(p, choice);
    std::vector<int> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return choice[a] > choice[b]; });
    for (int& e : order) e /= static_cast<int>(p.share_matrix);
    if (op.weights.size() > 2) {
      const core::Weight& table = naive.program().weights[op.weights[2]];
      const size_t bytes = p.used * sizeof(int32_t);
      std::memcpy(order.data(), table.data + naive.batch().tokens[t] * bytes, bytes);
    }

    Naive::Row ids(order.begin(), order.begin() + p.used), shares;
    for (int64_t s = 0; s < p.used; ++s) shares.push_back(shares_of_all[order[s]]);
    if (p.gate == core::Gate::softmax_of_chosen)
      for (double& s : shares) s = std::exp(s - largest);
    double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (p.gate == core::Gate::softmax_of_chosen)
      for (double& s : shares) s /= sum;
    else if (p.normalize)
      for (double& s : shares) s /= std::max(sum, 0x1p-14); // f16's smallest normal number, as in the reference
    for (double& s : shares) s *= p.scale;
    if (op.weights.size() > 1) {
      const Naive::Row of_expert = naive.weight_row(op.weights[1], 0);
      for (int64_t s = 0; s < p.used; ++s) shares[s] *= of_expert[order[s]];
    }
    naive.value(op.outputs[1]).push_back(shares);
    return ids;
  });
}

} // namespace ridge::tests
