// Products by tiles that fill the registers: a tile of C sums over kDepth columns of A at a time, whose panel of B
// stays in the nearest cache while A, packed once for all threads, streams by.
#include "quant/encode/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "convert/tuning/products.cpp"
#include <hwy/foreach_target.h>

#include "convert/tuning/products.h"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <omp.h>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace ridge::convert::tuning::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr Tag kTag;
constexpr int64_t kLanes = hn::MaxLanes(kTag);
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int64_t kRows = kManyRegisters ? 14 : 6, kCols = 2 * kLanes;
constexpr int64_t kDepth = 192, kMostRows = 220 * kRows, kMostDepth = 16 * kDepth; // packed at once: 38 MB

// c = a b, or more by that; a: [depth][kRows], b: [depth][kCols].
void add_tile(const float* a, const float* b, int64_t depth, bool adds, float* c, int64_t c_row) {
  Vector sum[kRows][2];
  HWY_UNROLL(14)
  for (int64_t r = 0; r < kRows; ++r) {
    sum[r][0] = adds ? hn::LoadU(kTag, c + r * c_row) : hn::Zero(kTag);
    sum[r][1] = adds ? hn::LoadU(kTag, c + r * c_row + kLanes) : hn::Zero(kTag);
  }
  for (int64_t i = 0; i < depth; ++i, a += kRows, b += kCols) {
    const Vector b0 = hn::LoadU(kTag, b), b1 = hn::LoadU(kTag, b + kLanes);
    HWY_UNROLL(14)
    for (int64_t r = 0; r < kRows; ++r) {
      const Vector of_a = hn::Set(kTag, a[r]);
      sum[r][0] = hn::MulAdd(of_a, b0, sum[r][0]);
      sum[r][1] = hn::MulAdd(of_a, b1, sum[r][1]);
    }
  }
  HWY_UNROLL(14)
  for (int64_t r = 0; r < kRows; ++r) {
    hn::StoreU(sum[r][0], kTag, c + r * c_row);
    hn::StoreU(sum[r][1], kTag, c + r * c_row + kLanes);
  }
}

// out [depth][kWidth]: lines `line` apart, padded by zeros.
template <int64_t kWidth>
void pack(const float* from, int64_t line, int64_t step, int64_t lines, int64_t depth, float* out) {
  if (lines < kWidth) {
    std::fill_n(out, depth * kWidth, 0.0f);
    for (int64_t l = 0; l < lines; ++l)
      for (int64_t i = 0; i < depth; ++i) out[i * kWidth + l] = from[l * line + i * step];
  } else if (line == 1) {
    for (int64_t i = 0; i < depth; ++i) std::memcpy(out + i * kWidth, from + i * step, kWidth * sizeof(float));
  } else {
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t l = 0; l < kWidth; ++l) out[i * kWidth + l] = from[l * line + i * step];
  }
}

// kMostRows by kMostDepth of A at most, times all of B.
void add_part(int64_t m, int64_t n, int64_t k, Strided a, Strided b, bool adds, float* c, int64_t c_row,
              std::vector<float>& packed) {
  const int64_t tiles = (m + kRows - 1) / kRows, panels = (n + kCols - 1) / kCols;
  packed.resize(std::max(packed.size(), static_cast<size_t>(tiles * kRows * k)));
  float* const of_a = packed.data();
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t first = 0; first < k; first += kDepth) {
        const int64_t depth = std::min(kDepth, k - first);
        pack<kRows>(a.data + tile * kRows * a.row + first * a.col, a.row, a.col, std::min(kRows, m - tile * kRows),
                    depth, of_a + tiles * kRows * first + tile * kRows * depth);
      }
    // Few panels: each by several threads, for some of the tiles.
    const int64_t parts = std::clamp<int64_t>(4 * omp_get_num_threads() / panels, 1, std::max<int64_t>(1, tiles / 4));
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < panels * parts; ++task) {
      const int64_t panel = task / parts, part = task % parts;
      const int64_t col = panel * kCols, cols = std::min(kCols, n - col);
      alignas(64) float of_b[kDepth * kCols];
      for (int64_t first = 0; first < k; first += kDepth) {
        const int64_t depth = std::min(kDepth, k - first);
        pack<kCols>(b.data + first * b.row + col * b.col, b.col, b.row, cols, depth, of_b);
        for (int64_t tile = tiles * part / parts; tile < tiles * (part + 1) / parts; ++tile) {
          const float* rows = of_a + tiles * kRows * first + tile * kRows * depth;
          float* to = c + tile * kRows * c_row + col;
          const int64_t whole = std::min(kRows, m - tile * kRows);
          if (whole == kRows && cols == kCols) {
            add_tile(rows, of_b, depth, adds || first > 0, to, c_row);
            continue;
          }
          alignas(64) float edge[kRows * kCols];
          add_tile(rows, of_b, depth, false, edge, kCols);
          for (int64_t r = 0; r < whole; ++r)
            for (int64_t j = 0; j < cols; ++j)
              to[r * c_row + j] = (adds || first > 0 ? to[r * c_row + j] : 0) + edge[r * kCols + j];
        }
      }
    }
  }
}

void product(int64_t m, int64_t n, int64_t k, Strided a, Strided b, bool adds, float* c, int64_t c_row) {
  static thread_local std::vector<float> packed;
  for (int64_t row = 0; row < m; row += kMostRows)
    for (int64_t first = 0; first < k; first += kMostDepth)
      add_part(std::min(kMostRows, m - row), n, std::min(kMostDepth, k - first),
               {a.data + row * a.row + first * a.col, a.row, a.col}, {b.data + first * b.row, b.row, b.col},
               adds || first > 0, c + row * c_row, c_row, packed);
}

float dot(const float* a, const float* b, int64_t n) {
  Vector sum = hn::Zero(kTag);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = hn::MulAdd(hn::LoadU(kTag, a + i), hn::LoadU(kTag, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(kTag, sum));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

float exponentials(float* x, int64_t n, float shift) {
  const auto of = [=](Vector values) {
    const Vector moved = hn::Add(values, hn::Set(kTag, shift));
    return hn::Exp(kTag, hn::Clamp(moved, hn::Set(kTag, -87.0f), hn::Set(kTag, 88.0f)));
  };
  Vector sum = hn::Zero(kTag);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector e = of(hn::LoadU(kTag, x + i));
    hn::StoreU(e, kTag, x + i);
    sum = hn::Add(sum, e);
  }
  float total = hn::GetLane(hn::SumOfLanes(kTag, sum));
  if (i == n) return total;
  float rest[kLanes] = {};
  std::copy_n(x + i, n - i, rest);
  hn::StoreU(of(hn::LoadU(kTag, rest)), kTag, rest);
  std::copy_n(rest, n - i, x + i);
  return std::accumulate(rest, rest + n - i, total);
}

} // namespace
} // namespace ridge::convert::tuning::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::convert::tuning {
namespace {
HWY_EXPORT(product);
HWY_EXPORT(dot);
HWY_EXPORT(exponentials);
} // namespace

void add_product(int64_t m, int64_t n, int64_t k, Strided a, Strided b, float* c, int64_t c_row) {
  HWY_DYNAMIC_DISPATCH(product)(m, n, k, a, b, true, c, c_row > 0 ? c_row : n);
}
void set_product(int64_t m, int64_t n, int64_t k, Strided a, Strided b, float* c, int64_t c_row) {
  HWY_DYNAMIC_DISPATCH(product)(m, n, k, a, b, false, c, c_row > 0 ? c_row : n);
}
float dot(const float* a, const float* b, int64_t n) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, n); }
float exponentials(float* x, int64_t n, float shift) { return HWY_DYNAMIC_DISPATCH(exponentials)(x, n, shift); }
} // namespace ridge::convert::tuning
#endif
