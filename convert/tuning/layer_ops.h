// Ops of the Network: values are [tokens][width], gradients are added.
#pragma once

#include "convert/tuning/products.h"
#include "core/ops.h"
#include "core/program.h"

#include <cstdint>
#include <span>

namespace ridge::convert::tuning {

// Weights repeat along the row.
void norm(const core::NormParams& params, std::span<const float> x, int64_t width, std::span<const float> w,
          std::span<float> out);
void norm_back(const core::NormParams& params, std::span<const float> x, int64_t width, std::span<const float> w,
               std::span<const float> of_out, std::span<float> of_x, std::span<float> of_w);

// direction -1: back. out += rotated, or its transpose.
void rope(const core::RopeParams& params, const core::RopeTable& table, int64_t text_tokens, float direction,
          std::span<const float> x, std::span<float> out);

bool has_slope(const core::ActivationParams& params);
// slope: empty, or of the same length.
void activate(const core::ActivationParams& params, std::span<const float> x, std::span<float> out,
              std::span<float> slope = {});

// Over all texts. q: [tokens][heads * k_dim], k and v: [tokens][kv heads * dim].
struct Attention {
  const core::AttentionParams& params;
  const core::KvLayer& kv;
  int64_t text_tokens;
  std::span<const float> q, k, v;

  void run(std::span<float> out) const;
  void run_back(std::span<const float> of_out, std::span<float> of_q, std::span<float> of_k,
                std::span<float> of_v) const;

 private:
  void shares(int64_t text, int64_t head, float* out, float* limits) const;
  Strided of_head(std::span<const float> values, int64_t text, int64_t heads, int64_t head, int64_t dim) const;
};

} // namespace ridge::convert::tuning
