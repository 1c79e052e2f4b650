#include "convert/tuning/layer_ops.h"

#include "convert/tuning/products.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace ridge::convert::tuning {

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
  constexpr int64_t kColumns = 64;
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < group; first += kColumns)
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t i = first; i < std::min(group, first + kColumns); ++i)
        of_w[(g * group % width + i) % weights] += of_out[g * group + i] * x[g * group + i] * scale[g];
}

void rope(const core::RopeParams& params, const core::RopeTable& table, int64_t text_tokens, float direction,
          std::span<const float> x, std::span<float> out) {
  const std::vector<float>& frequencies = table.frequencies(text_tokens);
  const int64_t pairs = std::ssize(frequencies), dim = params.head_dim;
  const int64_t tokens = std::ssize(x) / (params.heads * dim);
  const bool adjacent = table.style == core::RopeStyle::adjacent;
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<float> cosine(frequencies.size()), sine(frequencies.size());
    for (int64_t p = 0; p < pairs; ++p) {
      const float angle = static_cast<float>(t % text_tokens) * frequencies[static_cast<size_t>(p)];
      cosine[p] = std::cos(angle) * table.magnitude, sine[p] = std::sin(angle) * table.magnitude * direction;
    }
    for (int64_t h = 0; h < params.heads; ++h) {
      const float* in = &x[(t * params.heads + h) * dim];
      float* to = &out[(t * params.heads + h) * dim];
      for (int64_t p = 0; p < pairs; ++p) {
        const int64_t i = adjacent ? 2 * p : p, j = adjacent ? 2 * p + 1 : p + pairs;
        to[i] += in[i] * cosine[p] - in[j] * sine[p];
        to[j] += in[i] * sine[p] + in[j] * cosine[p];
      }
      for (int64_t i = 2 * pairs; i < dim; ++i) to[i] += in[i];
    }
  }
}

bool has_slope(const core::ActivationParams& params) {
  using core::Activation;
  return params.limit == 0 && params.shift == 0 &&
         (params.kind == Activation::identity || params.kind == Activation::silu || params.kind == Activation::gelu ||
          params.kind == Activation::soft_cap);
}

namespace {

// each(i, x of i, exp(inner(x of i))), for parts of x in parallel.
void with_exponentials(std::span<const float> x, const auto& inner, const auto& each) {
  constexpr int64_t kPart = 512;
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < std::ssize(x); first += kPart) {
    const int64_t n = std::min(kPart, std::ssize(x) - first);
    float e[kPart];
    for (int64_t i = 0; i < n; ++i) e[i] = inner(x[first + i]);
    exponentials(e, n);
    for (int64_t i = 0; i < n; ++i) each(first + i, x[first + i], e[i]);
  }
}

} // namespace

void activate(const core::ActivationParams& params, std::span<const float> x, std::span<float> out,
              std::span<float> slope) {
  using core::Activation;
  const float alpha = params.alpha;
  const bool slopes = !slope.empty();
  switch (params.kind) {
  case Activation::silu:
    return with_exponentials(
        x, [=](float v) { return -alpha * v; },
        [&](int64_t i, float v, float e) {
          const float s = 1 / (1 + e);
          out[i] = v * s;
          if (slopes) slope[i] = s + alpha * v * s * (1 - s);
        });
  case Activation::gelu: { // (1 + tanh(u)) / 2 is the sigmoid of 2 u
    const float root = 2 * std::sqrt(2 / std::numbers::pi_v<float>);
    return with_exponentials(
        x, [=](float v) { return -root * (v + 0.044715f * v * v * v); },
        [&](int64_t i, float v, float e) {
          const float s = 1 / (1 + e);
          out[i] = v * s;
          if (slopes) slope[i] = s + v * s * (1 - s) * root * (1 + 3 * 0.044715f * v * v);
        });
  }
  case Activation::soft_cap:
    return with_exponentials(
        x, [=](float v) { return 2 * v / alpha; },
        [&](int64_t i, float, float e) {
          const float t = 1 - 2 / (1 + e);
          out[i] = alpha * t;
          if (slopes) slope[i] = 1 - t * t;
        });
  default:
    for (size_t i = 0; i < x.size(); ++i) out[i] = alpha * x[i];
    if (slopes) std::ranges::fill(slope, alpha);
  }
}

// Attention of a head's tokens to earlier ones, [text_tokens][text_tokens]; limits: slopes of soft limits.
void Attention::shares(int64_t text, int64_t head, float* out, float* limits) const {
  const int64_t group = params.heads / kv.heads, n = text_tokens;
  const Strided keys = of_head(k, text, kv.heads, head / group, kv.k_dim);
  set_product(n, n, kv.k_dim, of_head(q, text, params.heads, head, kv.k_dim), {keys.data, 1, keys.row}, out);
  for (int64_t t = 0; t < n; ++t) {
    float* row = out + t * n;
    const int64_t first = params.first_seen(t);
    float largest = -INFINITY;
    for (int64_t at = first; at <= t; ++at) {
      row[at] *= params.scale;
      if (params.soft_cap > 0) {
        const float limited = std::tanh(row[at] / params.soft_cap);
        if (limits) limits[t * n + at] = 1 - limited * limited;
        row[at] = params.soft_cap * limited;
      }
      largest = std::max(largest, row[at]);
    }
    const float of_sum = 1 / exponentials(row + first, t + 1 - first, -largest);
    for (int64_t at = first; at <= t; ++at) row[at] *= of_sum;
    std::fill(row, row + first, 0.0f);
    std::fill(row + t + 1, row + n, 0.0f);
  }
}

// A head of a text's tokens, [text_tokens][dim].
Strided Attention::of_head(std::span<const float> values, int64_t text, int64_t heads, int64_t head,
                           int64_t dim) const {
  return {&values[(text * text_tokens * heads + head) * dim], heads * dim, 1};
}

void Attention::run(std::span<float> out) const {
  const int64_t n = text_tokens, texts = std::ssize(q) / (params.heads * kv.k_dim) / n;
  const int64_t group = params.heads / kv.heads;
#pragma omp parallel for schedule(dynamic, 1) collapse(2)
  for (int64_t text = 0; text < texts; ++text)
    for (int64_t head = 0; head < params.heads; ++head) {
      static thread_local std::vector<float> share;
      share.resize(static_cast<size_t>(n * n));
      shares(text, head, share.data(), nullptr);
      set_product(n, kv.v_dim, n, {share.data(), n, 1}, of_head(v, text, kv.heads, head / group, kv.v_dim),
                  &out[(text * n * params.heads + head) * kv.v_dim], params.heads * kv.v_dim);
    }
}

void Attention::run_back(std::span<const float> of_out, std::span<float> of_q, std::span<float> of_k,
                         std::span<float> of_v) const {
  const int64_t n = text_tokens, texts = std::ssize(q) / (params.heads * kv.k_dim) / n;
  const int64_t group = params.heads / kv.heads, width = kv.k_dim + kv.v_dim;
  std::vector<float> of_cached(static_cast<size_t>(texts * params.heads * n * width)); // by query head, then summed
#pragma omp parallel for schedule(dynamic, 1) collapse(2)
  for (int64_t text = 0; text < texts; ++text)
    for (int64_t head = 0; head < params.heads; ++head) {
      static thread_local std::vector<float> share, limits, of_share;
      for (auto* values : {&share, &of_share}) values->resize(static_cast<size_t>(n * n));
      limits.assign(params.soft_cap > 0 ? share.size() : 0, 0.0f);
      const Strided values = of_head(v, text, kv.heads, head / group, kv.v_dim),
                    slope = of_head(of_out, text, params.heads, head, kv.v_dim);
      float* const to = &of_cached[(text * params.heads + head) * n * width];
      shares(text, head, share.data(), limits.empty() ? nullptr : limits.data());
      set_product(n, n, kv.v_dim, slope, {values.data, 1, values.row}, of_share.data());
      set_product(n, kv.v_dim, n, {share.data(), 1, n}, slope, to + kv.k_dim, width);
      for (int64_t t = 0; t < n; ++t) {
        const float mean = dot(&of_share[t * n], &share[t * n], t + 1);
        for (int64_t at = 0; at < n; ++at)
          of_share[t * n + at] = params.scale * share[t * n + at] * (of_share[t * n + at] - mean);
      }
      for (size_t i = 0; i < limits.size(); ++i) of_share[i] *= limits[i];
      add_product(n, kv.k_dim, n, {of_share.data(), n, 1}, of_head(k, text, kv.heads, head / group, kv.k_dim),
                  &of_q[(text * n * params.heads + head) * kv.k_dim], params.heads * kv.k_dim);
      set_product(n, kv.k_dim, n, {of_share.data(), 1, n}, of_head(q, text, params.heads, head, kv.k_dim), to, width);
    }
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t text = 0; text < texts; ++text)
    for (int64_t t = 0; t < n; ++t)
      for (int64_t head = 0; head < params.heads; ++head) {
        const float* from = &of_cached[((text * params.heads + head) * n + t) * width];
        const int64_t row = (text * n + t) * kv.heads + head / group;
        for (int64_t i = 0; i < kv.k_dim; ++i) of_k[row * kv.k_dim + i] += from[i];
        for (int64_t i = 0; i < kv.v_dim; ++i) of_v[row * kv.v_dim + i] += from[kv.k_dim + i];
      }
}

} // namespace ridge::convert::tuning
