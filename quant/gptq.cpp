#include "quant/gptq.h"

#include "core/target_clones.h"
#include "quant/code_map.h"
#include "quant/codebooks.h"
#include "quant/encode.h"
#include "quant/lattice_feedback.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <stdexcept>

namespace ridge::quant {
namespace {

constexpr int64_t kRows = 32;

RIDGE_CLONES void add_scaled(float* out, const float* x, float a, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] += a * x[i];
}

void add_block_errors(const float* errors, int64_t rows, int64_t cols, int64_t first, int64_t block,
                      const CpuHessian::Factor& factor, float* target) {
  constexpr int64_t kStrip = 1024;
  for (int64_t at = first + block; at < cols; at += kStrip)
    for (int64_t i = 0; i < block; ++i)
      for (int64_t r = 0; r < rows; ++r)
        add_scaled(target + r * cols + at, &factor.m[(first + i) * cols + at], errors[r * block + i],
                   std::min(kStrip, cols - at));
}

// `target` starts as the weights and accumulates errors.
void encode_some(Type type, const CodeMap& map, const float* weights, int64_t rows, int64_t cols,
                 const CpuHessian::Factor& factor, std::byte* out) {
  const FormatInfo& info = format(type);
  const int64_t block = info.block_weights, row_bytes = info.row_bytes(cols);
  std::vector<float> target(weights, weights + rows * cols), part(static_cast<size_t>(rows * block)),
      errors(part.size());
  std::vector<std::byte> packed(static_cast<size_t>(rows * info.block_bytes));
  std::vector<Scales> scales(static_cast<size_t>(block / 16));
  for (int64_t first = 0; first < cols; first += block) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(&target[r * cols + first], block, &part[r * block]);
    encode_rows(type, part.data(), rows, block, std::span(factor.d).subspan(first, block), packed.data());
    for (int64_t r = 0; r < rows; ++r) {
      std::byte* bytes = &packed[r * info.block_bytes];
      map.scales(bytes, scales.data());
      for (int64_t i = 0; i < block; ++i) {
        const Scales s = scales[i / 16];
        const float wanted = target[r * cols + first + i];
        const int pattern = map.nearest(s.scale != 0 ? (wanted - s.offset) / s.scale : 0.0f);
        map.set(bytes, i, pattern);
        const float error = weights[r * cols + first + i] - (s.scale * map.level(pattern) + s.offset);
        errors[r * block + i] = error;
        const int64_t next = first + i + 1;
        add_scaled(target.data() + r * cols + next, factor.m.data() + (next - 1) * cols + next, error, block - i - 1);
      }
      std::memcpy(out + r * row_bytes + first / block * info.block_bytes, bytes, info.block_bytes);
    }
    add_block_errors(errors.data(), rows, cols, first, block, factor, target.data());
  }
}

// The same for codebooks, eight columns at a time.
void encode_some(Type type, const PointSearch& points, const float* weights, int64_t rows, int64_t cols,
                 const CpuHessian::Factor& factor, std::byte* out) {
  const FormatInfo& info = format(type);
  const int64_t block = info.block_weights, row_bytes = info.row_bytes(cols);
  std::vector<float> target(weights, weights + rows * cols), part(static_cast<size_t>(rows * block)),
      errors(part.size()), scales(static_cast<size_t>(rows * block / 16));
  std::vector<Parts> parts(static_cast<size_t>(rows));
  PointSearch::Octet octet{};
  for (int64_t first = 0; first < cols; first += block) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(&target[r * cols + first], block, &part[r * block]);
    if (const auto bad = std::ranges::find_if_not(part, [](float w) { return std::isfinite(w); }); bad != part.end())
      throw_not_finite((bad - part.begin()) / block, first + (bad - part.begin()) % block);
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
            errors[(side + r) * block + at + i] = error;
            add_scaled(&target[(side + r) * cols + first + at + 8], &factor.m[(first + at + i) * cols + first + at + 8],
                       error, block - at - 8);
          }
      }
    }
    for (int64_t r = 0; r < rows; ++r) points.pack(parts[r], out + r * row_bytes + first / block * info.block_bytes);
    add_block_errors(errors.data(), rows, cols, first, block, factor, target.data());
  }
}

} // namespace

bool can_encode_with_feedback(Type type) { return can_encode(type) && (CodeMap::of(type) || PointSearch::of(type)); }

void encode_with_feedback(Type type, const float* weights, int64_t rows, int64_t cols, const CpuHessian::Factor& factor,
                          std::byte* out) {
  const CodeMap* map = CodeMap::of(type);
  const PointSearch* points = PointSearch::of(type);
  if ((!map && !points) || factor.cols != cols)
    throw std::logic_error("encode_with_feedback: no codes, or another matrix's factor");
  const int64_t row_bytes = format(type).row_bytes(cols);
  std::exception_ptr problem; // must not leave the parallel loop
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t first = 0; first < rows; first += kRows) try {
      const int64_t count = std::min(kRows, rows - first);
      if (map)
        encode_some(type, *map, weights + first * cols, count, cols, factor, out + first * row_bytes);
      else
        encode_some(type, *points, weights + first * cols, count, cols, factor, out + first * row_bytes);
    } catch (...) {
#pragma omp critical
      problem = std::current_exception();
    }
  if (problem) std::rethrow_exception(problem);
}

void CpuHessian::encode(Type type, const float* weights, int64_t rows, std::byte* out) {
  if (!factor_) factor_ = factor(kDamping);
  encode_with_feedback(type, weights, rows, cols_, *factor_, out);
}

} // namespace ridge::quant
