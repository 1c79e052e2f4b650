#include "quant/feedback/gptq.h"

#include "core/target_clones.h"
#include "quant/encode/encode.h"
#include "quant/feedback/block_codes.h"
#include "quant/feedback/lattice_feedback.h"
#include "quant/feedback/row_products.h"
#include "quant/formats/codebooks.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>

namespace ridge::quant {
namespace {

RIDGE_CLONES void add_scaled(float* out, const float* x, float a, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] += a * x[i];
}

// errors: of the block, [rows][block]; blocks have multiples of 32 weights.
void subtract_block_errors(const float* errors, int64_t rows, int64_t cols, int64_t first, int64_t block,
                           const CpuHessian::Factor& factor, float* target) {
  std::vector<float> panel(static_cast<size_t>(block * kProductLanes)); // rows a power of two apart share cache sets
  for (int64_t at = first + block; at < cols; at += kProductLanes) {
    for (int64_t i = 0; i < block; ++i)
      std::copy_n(&factor.m[(first + i) * cols + at], kProductLanes, &panel[i * kProductLanes]);
    subtract_product(errors, block, rows, panel.data(), block, target + at, cols);
  }
}

void check_block(std::span<const float> part, int64_t block, int64_t first) {
  const auto bad = std::ranges::find_if_not(part, [](float w) { return std::isfinite(w); });
  if (bad != part.end()) throw_not_finite((bad - part.begin()) / block, first + (bad - part.begin()) % block);
}

// `target` starts as the weights and accumulates errors.
void encode_some(const BlockCodes& codes, const float* weights, int64_t rows, int64_t cols,
                 const CpuHessian::Factor& factor, Parts* out) {
  const int64_t block = codes.block, blocks = cols / block;
  std::vector<float> target(weights, weights + rows * cols), part(static_cast<size_t>(rows * block)),
      errors(part.size());
  std::vector<Parts> found(static_cast<size_t>(rows));
  for (int64_t first = 0; first < cols; first += block) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(&target[r * cols + first], block, &part[r * block]);
    check_block(part, block, first);
    codes.search(part.data(), &factor.d[first], rows, found.data());
    for (int64_t r = 0; r < rows; ++r) {
      Parts& parts = found[r];
      for (int64_t i = 0; i < block; ++i) {
        const Scales s = codes.scales(parts, static_cast<int>(i / codes.group));
        const float wanted = target[r * cols + first + i];
        const float code = codes.nearest(s.scale != 0 ? (wanted - s.offset) / s.scale : 0.0f);
        parts.code[i] = static_cast<int8_t>(code);
        const float error = weights[r * cols + first + i] - (s.scale * code + s.offset);
        errors[r * block + i] = -error;
        const int64_t next = first + i + 1;
        add_scaled(target.data() + r * cols + next, factor.m.data() + (next - 1) * cols + next, error, block - i - 1);
      }
      out[r * blocks + first / block] = parts;
    }
    subtract_block_errors(errors.data(), rows, cols, first, block, factor, target.data());
  }
}

// The same for codebooks, eight columns at a time.
void encode_some(const BlockCodes& codes, const PointSearch& points, const float* weights, int64_t rows, int64_t cols,
                 const CpuHessian::Factor& factor, Parts* out) {
  const int64_t block = codes.block, blocks = cols / block;
  std::vector<float> target(weights, weights + rows * cols), part(static_cast<size_t>(rows * block)),
      errors(part.size()), scales(static_cast<size_t>(rows * block / 16));
  std::vector<Parts> parts(static_cast<size_t>(rows));
  PointSearch::Octet octet{};
  for (int64_t first = 0; first < cols; first += block) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(&target[r * cols + first], block, &part[r * block]);
    check_block(part, block, first);
    points.search(part.data(), &factor.d[first], rows, parts.data());
    for (int64_t r = 0; r < rows; ++r) points.scales(parts[r], &scales[r * (block / 16)]);
    for (int64_t at = 0; at < block; at += 8) {
      for (int i = 0; i < 8; ++i) {
        octet.d[i] = factor.d[first + at + i];
        for (int k = i + 1; k < 8; ++k) octet.m[i][k] = factor.m[(first + at + i) * cols + first + at + k];
      }
      for (int64_t side = 0; side < rows; side += PointSearch::kRows) {
        const int64_t used = std::min<int64_t>(PointSearch::kRows, rows - side);
        for (int64_t r = 0; r < used; ++r) {
          for (int i = 0; i < 8; ++i) {
            octet.weight[i][r] = weights[(side + r) * cols + first + at + i];
            octet.target[i][r] = target[(side + r) * cols + first + at + i];
          }
          octet.scale[r] = scales[((side + r) * block + at) / 16];
          octet.shift[r] = points.shifted() ? static_cast<float>(iq1_shift(parts[side + r].code[at])) : 0.0f;
        }
        points.choose(octet);
        for (int64_t r = 0; r < used; ++r)
          for (int i = 0; i < 8; ++i) {
            const float error = octet.weight[i][r] - octet.scale[r] * octet.code[i][r];
            parts[side + r].code[at + i] = static_cast<int8_t>(octet.code[i][r]);
            errors[(side + r) * block + at + i] = -error;
            add_scaled(&target[(side + r) * cols + first + at + 8], &factor.m[(first + at + i) * cols + first + at + 8],
                       error, block - at - 8);
          }
      }
    }
    for (int64_t r = 0; r < rows; ++r) out[r * blocks + first / block] = parts[r];
    subtract_block_errors(errors.data(), rows, cols, first, block, factor, target.data());
  }
}

} // namespace

void for_rows(int64_t rows, int64_t step, const std::function<void(int64_t, int64_t)>& work) {
  std::exception_ptr problem; // must not leave the parallel loop
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t first = 0; first < rows; first += step) try {
      work(first, std::min(step, rows - first));
    } catch (...) {
#pragma omp critical
      problem = std::current_exception();
    }
  if (problem) std::rethrow_exception(problem);
}

bool can_encode_with_feedback(Type type) { return BlockCodes::of(type) != nullptr; }

std::vector<Parts> feedback_parts(Type type, const float* weights, int64_t rows, int64_t cols,
                                  const CpuHessian::Factor& factor) {
  const BlockCodes* codes = BlockCodes::of(type);
  if (!codes || factor.cols != cols) throw std::logic_error("feedback_parts: no codes, or another matrix's factor");
  std::vector<Parts> parts(static_cast<size_t>(rows * cols / codes->block));
  if (const PointSearch* points = PointSearch::of(type))
    encode_some(*codes, *points, weights, rows, cols, factor, parts.data());
  else
    encode_some(*codes, weights, rows, cols, factor, parts.data());
  return parts;
}

std::vector<Parts> search_parts(Type type, const float* weights, int64_t rows, int64_t cols,
                                std::span<const float> importance) {
  const BlockCodes& codes = *BlockCodes::of(type);
  const int64_t block = codes.block, blocks = cols / block;
  std::vector<Parts> parts(static_cast<size_t>(rows * blocks)), found(static_cast<size_t>(rows));
  std::vector<float> part(static_cast<size_t>(rows * block));
  for (int64_t first = 0; first < cols; first += block) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(&weights[r * cols + first], block, &part[r * block]);
    codes.search(part.data(), &importance[first], rows, found.data());
    for (int64_t r = 0; r < rows; ++r) parts[r * blocks + first / block] = found[r];
  }
  return parts;
}

void encode_with_feedback(Type type, const float* weights, int64_t rows, int64_t cols, const CpuHessian::Factor& factor,
                          std::byte* out) {
  const BlockCodes* codes = BlockCodes::of(type);
  if (!codes) throw std::logic_error("encode_with_feedback: no codes");
  const FormatInfo& info = format(type);
  for_rows(rows, kFeedbackRows, [&](int64_t first, int64_t count) {
    const auto parts = feedback_parts(type, weights + first * cols, count, cols, factor);
    for (size_t i = 0; i < parts.size(); ++i)
      codes->pack(parts[i], out + first * info.row_bytes(cols) + static_cast<int64_t>(i) * info.block_bytes);
  });
}

} // namespace ridge::quant
