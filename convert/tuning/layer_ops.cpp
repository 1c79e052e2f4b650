#include "convert/tuning/layer_ops.h"

#include "convert/tuning/products.h"
#include "core/target_clones.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace ridge::convert::tuning {
namespace {

RIDGE_CLONES void add_scaled(float factor, const float* x, int64_t n, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] += factor * x[i];
}

} // namespace

void norm(const core::NormParams& params, std::span<const float> x, int64_t width, std::span<const float> w,
          std::span<float> out) {
  const int64_t group = params.group, groups = std::ssize(x) / group, weights = std::ssize(w);
#pragma omp parallel for schedule(static)
  for (int64_t g = 0; g < groups; ++g) {
    const float* in = &x[g * group];
    const float scale = 1 / std::sqrt(dot(in, in, group) / static_cast<float>(group) + params.epsilon);
    for (int64_t i = 0; i < group; ++i) out[g * group + i] = in[i] * scale * w[(g * group % width + i) % weights];
  }
}

void norm_back(const core::NormParams& params, std::span<const float> x, int64_t width, std::span<const float> w,
               std::span<const float> of_out, std::span<float> of_x, std::span<float> of_w) {
  const int64_t group = params.group, groups = std::ssize(x) / group, weights = std::ssize(w);
  std::vector<float> scale(static_cast<size_t>(groups));
#pragma omp parallel for schedule(static)
  for (int64_t g = 0; g < groups; ++g) {
    const float *in = &x[g * group], *slope = &of_out[g * group];
    scale[g] = 1 / std::sqrt(dot(in, in, group) / static_cast<float>(group) + params.epsilon);
    float along = 0;
    for (int64_t i = 0; i < group; ++i) along += slope[i] * w[(g * group % width + i) % weights] * in[i];
    along *= scale[g] * scale[g] * scale[g] / static_cast<float>(group);
    for (int64_t i = 0; i < group; ++i)
      of_x[g * group + i] += slope[i] * w[(g * group % width + i) % weights] * scale[g] - in[i] * along;
  }
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < group; ++i)
      of_w[(g * group % width + i) % weights] += of_out[g * group + i] * x[g * group + i] * scale[g];
}

void rope(const core::RopeParams& params, const core::RopeTable& table, int64_t text_tokens, float direction,
          std::span<const float> x, std::span<float> out) {
  const std::vector<float>& frequencies = table.frequencies(text_tokens);
  const int64_t pairs = std::ssize(frequencies), dim = params.head_dim;
  const int64_t tokens = std::ssize(x) / (params.heads * dim);
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < params.heads; ++h) {
      const float* in = &x[(t * params.heads + h) * dim];
      float* to = &out[(t * params.heads + h) * dim];
      for (int64_t p = 0; p < pairs; ++p) {
        const bool adjacent = table.style == core::RopeStyle::adjacent;
        const int64_t i = adjacent ? 2 * p : p, j = adjacent ? 2 * p + 1 : p + pairs;
        const float angle = static_cast<float>(t % text_tokens) * frequencies[static_cast<size_t>(p)];
        const float c = std::cos(angle) * table.magnitude, s = std::sin(angle) * table.magnitude * direction;
        to[i] += in[i] * c - in[j] * s;
        to[j] += in[i] * s + in[j] * c;
      }
      for (int64_t i = 2 * pairs; i < dim; ++i) to[i] += in[i];
    }
}

bool has_slope(const core::ActivationParams& params) {
  using core::Activation;
  return params.limit == 0 && params.shift == 0 &&
         (params.kind == Activation::identity || params.kind == Activation::silu || params.kind == Activation::gelu ||
          params.kind == Activation::soft_cap);
}

float activate(const core::ActivationParams& params, float x) {
  switch (params.kind) {
  case core::Activation::silu: return x / (1 + std::exp(-params.alpha * x));
  case core::Activation::gelu: {
    const float inner = std::sqrt(2 / std::numbers::pi_v<float>) * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1 + std::tanh(inner));
  }
  case core::Activation::soft_cap: return params.alpha * std::tanh(x / params.alpha);
  default: return params.alpha * x;
  }
}

float slope(const core::ActivationParams& params, float x) {
  switch (params.kind) {
  case core::Activation::silu: {
    const float s = 1 / (1 + std::exp(-params.alpha * x));
    return s + params.alpha * x * s * (1 - s);
  }
  case core::Activation::gelu: {
    const float root = std::sqrt(2 / std::numbers::pi_v<float>), t = std::tanh(root * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * root * (1 + 3 * 0.044715f * x * x);
  }
  case core::Activation::soft_cap: {
    const float t = std::tanh(x / params.alpha);
    return 1 - t * t;
  }
  default: return params.alpha;
  }
}

// Attention of a head's tokens to earlier ones, [text_tokens][text_tokens]; unlimited: slopes of soft limits.
void Attention::shares(int64_t text, int64_t head, float* out, float* limits) const {
  const int64_t group = params.heads / kv.heads, n = text_tokens;
  for (int64_t t = 0; t < n; ++t) {
    const float* query = &q[((text * n + t) * params.heads + head) * kv.k_dim];
    float largest = -INFINITY, sum = 0;
    const int64_t first = params.first_seen(t);
    for (int64_t at = first; at <= t; ++at) {
      float score = params.scale * dot(query, &k[((text * n + at) * kv.heads + head / group) * kv.k_dim], kv.k_dim);
      if (params.soft_cap > 0) {
        const float limited = std::tanh(score / params.soft_cap);
        if (limits) limits[t * n + at] = 1 - limited * limited;
        score = params.soft_cap * limited;
      }
      out[t * n + at] = score;
      largest = std::max(largest, score);
    }
    for (int64_t at = first; at <= t; ++at) sum += out[t * n + at] = std::exp(out[t * n + at] - largest);
    for (int64_t at = first; at <= t; ++at) out[t * n + at] /= sum;
  }
}

void Attention::run(std::span<float> out) const {
  const int64_t n = text_tokens, texts = std::ssize(q) / (params.heads * kv.k_dim) / n;
  const int64_t group = params.heads / kv.heads;
#pragma omp parallel for schedule(dynamic, 1) collapse(2)
  for (int64_t text = 0; text < texts; ++text)
    for (int64_t head = 0; head < params.heads; ++head) {
      std::vector<float> share(static_cast<size_t>(n * n));
      shares(text, head, share.data(), nullptr);
      for (int64_t t = 0; t < n; ++t)
        for (int64_t at = params.first_seen(t); at <= t; ++at)
          add_scaled(share[t * n + at], &v[((text * n + at) * kv.heads + head / group) * kv.v_dim], kv.v_dim,
                     &out[((text * n + t) * params.heads + head) * kv.v_dim]);
    }
}

void Attention::run_back(std::span<const float> of_out, std::span<float> of_q, std::span<float> of_k,
                         std::span<float> of_v) const {
  const int64_t n = text_tokens, texts = std::ssize(q) / (params.heads * kv.k_dim) / n;
  const int64_t group = params.heads / kv.heads;
#pragma omp parallel for schedule(dynamic, 1) collapse(2)
  for (int64_t text = 0; text < texts; ++text)
    for (int64_t of_kv = 0; of_kv < kv.heads; ++of_kv) {
      std::vector<float> share(static_cast<size_t>(n * n)), limits(params.soft_cap > 0 ? share.size() : 0),
          of_share(static_cast<size_t>(n));
      for (int64_t head = of_kv * group; head < (of_kv + 1) * group; ++head) {
        shares(text, head, share.data(), limits.empty() ? nullptr : limits.data());
        for (int64_t t = 0; t < n; ++t) {
          const int64_t row = (text * n + t) * params.heads + head, first = params.first_seen(t);
          const auto key = [&](int64_t at) { return (text * n + at) * kv.heads + of_kv; };
          float mean = 0;
          for (int64_t at = first; at <= t; ++at) {
            of_share[at] = dot(&of_out[row * kv.v_dim], &v[key(at) * kv.v_dim], kv.v_dim);
            mean += of_share[at] * share[t * n + at];
            add_scaled(share[t * n + at], &of_out[row * kv.v_dim], kv.v_dim, &of_v[key(at) * kv.v_dim]);
          }
          for (int64_t at = first; at <= t; ++at) {
            float of_score = params.scale * share[t * n + at] * (of_share[at] - mean);
            if (!limits.empty()) of_score *= limits[t * n + at];
            add_scaled(of_score, &k[key(at) * kv.k_dim], kv.k_dim, &of_q[row * kv.k_dim]);
            add_scaled(of_score, &q[row * kv.k_dim], kv.k_dim, &of_k[key(at) * kv.k_dim]);
          }
        }
      }
    }
}

} // namespace ridge::convert::tuning
