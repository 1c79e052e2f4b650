#include "convert/tuning/products.h"

#include "core/target_clones.h"

#include <algorithm>
#include <vector>

namespace ridge::convert::tuning {
namespace {

constexpr int64_t kTileRows = 6, kTileCols = 16, kDepth = 256;

// sum += a b for one tile; a: [k][kTileRows], b: [k][kTileCols].
RIDGE_CLONES void add_tile(const float* a, const float* b, int64_t k, float* sum) {
  float s[kTileRows][kTileCols];
  for (int r = 0; r < kTileRows; ++r)
#pragma omp simd
    for (int j = 0; j < kTileCols; ++j) s[r][j] = sum[r * kTileCols + j];
  for (int64_t i = 0; i < k; ++i, a += kTileRows, b += kTileCols) {
#pragma GCC unroll 6
    for (int r = 0; r < kTileRows; ++r)
#pragma omp simd
      for (int j = 0; j < kTileCols; ++j) s[r][j] += a[r] * b[j];
  }
  for (int r = 0; r < kTileRows; ++r)
#pragma omp simd
    for (int j = 0; j < kTileCols; ++j) sum[r * kTileCols + j] = s[r][j];
}

} // namespace

RIDGE_CLONES float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_product(int64_t m, int64_t n, int64_t k, Strided a, Strided b, float* c) {
  const int64_t row_tiles = (m + kTileRows - 1) / kTileRows, panels = (n + kTileCols - 1) / kTileCols;
  std::vector<float> packed(static_cast<size_t>(row_tiles * kTileRows * k));
#pragma omp parallel for schedule(static)
  for (int64_t tile = 0; tile < row_tiles; ++tile)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t r = 0; r < std::min(kTileRows, m - tile * kTileRows); ++r)
        packed[(tile * k + i) * kTileRows + r] = a.data[(tile * kTileRows + r) * a.row + i * a.col];
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t col = panel * kTileCols, cols = std::min(kTileCols, n - col);
    float of_b[kDepth * kTileCols];
    for (int64_t first = 0; first < k; first += kDepth) {
      const int64_t depth = std::min(kDepth, k - first);
      for (int64_t i = 0; i < depth; ++i)
        for (int64_t j = 0; j < kTileCols; ++j)
          of_b[i * kTileCols + j] = j < cols ? b.data[(first + i) * b.row + (col + j) * b.col] : 0.0f;
      for (int64_t tile = 0; tile < row_tiles; ++tile) {
        float sum[kTileRows * kTileCols] = {};
        add_tile(&packed[(tile * k + first) * kTileRows], of_b, depth, sum);
        for (int64_t r = 0; r < std::min(kTileRows, m - tile * kTileRows); ++r)
          for (int64_t j = 0; j < cols; ++j) c[(tile * kTileRows + r) * n + col + j] += sum[r * kTileCols + j];
      }
    }
  }
}

} // namespace ridge::convert::tuning
