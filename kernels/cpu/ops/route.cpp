#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::kernels::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool better(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

// NaN counts as worst, so ids stay distinct.
int32_t best_other(const float* scores, int64_t count, const int32_t* ids, int64_t chosen) {
  int32_t best = -1;
  for (int32_t e = 0; e < count; ++e) {
    if (std::find(ids, ids + chosen, e) != ids + chosen) continue;
    if (best < 0 || better(scores[e], scores[best])) best = e;
  }
  return best;
}

class Router {
 public:
  Router(const core::RouteParams& params, const float* bias, const float* scale)
      : params_(params), bias_(bias), scale_(scale) {}

  void route(const float* scores, const int32_t* given, int32_t* ids, float* shares) {
    weigh(scores);
    if (given) {
      std::copy_n(given, params_.used, ids);
      return share(ids, shares);
    }
    choice_ = weights_;
    if (params_.by_score || params_.by_sigmoid) choice_.assign(scores, scores + params_.experts);
    if (params_.by_sigmoid)
      for (float& score : choice_) score = 1 / (1 + std::exp(-score));
    for (int64_t e = 0; bias_ && e < params_.experts; ++e) choice_[e] += bias_[e];
    if (params_.groups > 1) drop_groups();
    for (int64_t s = 0; s < params_.used; ++s) ids[s] = best_other(choice_.data(), params_.experts, ids, s);
    for (int64_t s = 0; s < params_.used; ++s) ids[s] /= static_cast<int32_t>(params_.share_matrix);
    share(ids, shares);
  }

 private:
  // Shares before selection; scores for softmax_of_chosen.
  void weigh(const float* scores) {
    weights_.assign(scores, scores + params_.experts);
    if (params_.gate == core::Gate::sigmoid)
      for (float& w : weights_) w = 1 / (1 + std::exp(-w));
    if (params_.gate == core::Gate::root_softplus)
      for (float& w : weights_) w = std::sqrt(std::max(w, 0.0f) + std::log1p(std::exp(-std::abs(w))));
    if (params_.gate != core::Gate::softmax) return;
    if (params_.nearness > 0) return weigh_near(scores);
    const float largest = *std::ranges::max_element(weights_);
    double all = 0;
    for (const float w : weights_) all += std::exp(static_cast<double>(w) - largest);
    for (float& w : weights_) w = static_cast<float>(std::exp(static_cast<double>(w) - largest) / all);
  }

  void weigh_near(const float* scores) {
    for (int64_t e = 0; e < params_.experts; ++e) {
      double all = 0;
      for (int64_t other = 0; other < params_.experts; ++other) {
        const float below = scores[e] - scores[other];
        const bool worse = below > 0 || (below == 0 && other >= e);
        if (worse && below <= params_.nearness * std::max(std::abs(scores[e]), std::abs(scores[other])))
          all += std::exp(-static_cast<double>(below));
      }
      weights_[e] = static_cast<float>(1 / all);
    }
  }

  // A group's quality: sum of its two best experts.
  void drop_groups() {
    const int64_t size = params_.experts / params_.groups;
    std::vector<float> quality(params_.groups);
    for (int64_t g = 0; g < params_.groups; ++g) {
      const float* group = choice_.data() + g * size;
      const int32_t first = best_other(group, size, nullptr, 0);
      quality[g] = group[first] + (size > 1 ? group[best_other(group, size, &first, 1)] : 0);
    }
    std::vector<int32_t> kept(params_.groups_used);
    for (int64_t i = 0; i < params_.groups_used; ++i)
      kept[i] = best_other(quality.data(), params_.groups, kept.data(), i);
    for (int32_t g = 0; g < params_.groups; ++g)
      if (std::ranges::find(kept, g) == kept.end()) std::fill_n(choice_.begin() + g * size, size, kNever);
  }

  void share(const int32_t* ids, float* shares) const {
    const float largest = weights_[ids[0]];
    double sum = 0;
    for (int64_t s = 0; s < params_.used; ++s) {
      const float w = weights_[ids[s]];
      sum += shares[s] = params_.gate == core::Gate::softmax_of_chosen ? std::exp(w - largest) : w;
    }
    double factor = params_.scale;
    if (params_.gate == core::Gate::softmax_of_chosen)
      factor /= sum;
    else if (params_.normalize)
      factor /= std::max(sum, kMinSum);
    for (int64_t s = 0; s < params_.used; ++s)
      shares[s] = static_cast<float>(shares[s] * factor * (scale_ ? scale_[ids[s]] : 1));
  }

  static constexpr double kMinSum = 0x1p-14; // f16's smallest normal, as in reference code

  const core::RouteParams params_;
  const float *bias_, *scale_; // [experts] or null
  std::vector<float> weights_, choice_;
};

} // namespace

void lower_route(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::RouteParams>(op.params);
  const float* x = lowering.value(op.inputs[0]);
  const auto weight = [&](size_t i) {
    return i < op.weights.size() ? lowering.vector_weight(op.weights[i]).data() : nullptr;
  };
  const float *bias = weight(0), *scale = weight(1);
  const auto* table =
      op.weights.size() > 2 ? reinterpret_cast<const int32_t*>(lowering.weight(op.weights[2]).data) : nullptr;
  auto* ids = reinterpret_cast<int32_t*>(lowering.value(op.outputs[0]));
  float* shares = lowering.value(op.outputs[1]);
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered,
                    params.experts * params.used, [=, &batch = lowering.batch()](int64_t first, int64_t last) {
                      Router router(params, bias, scale);
                      for (int64_t t = first; t < last; ++t) {
                        const int32_t* given = table ? table + batch.tokens[t] * params.used : nullptr;
                        router.route(x + t * params.experts, given, ids + t * params.used, shares + t * params.used);
                      }
                    });
}

} // namespace ridge::kernels::cpu
