#include "kernels/cpu/executor/linear.h"

#include <algorithm>

namespace ridge::kernels::cpu {

namespace {

void run_neighbors(const Linear& linear, std::span<const int32_t> in, std::span<const int32_t> out, int64_t first,
                   int64_t count) {
  const std::byte* rows = linear.row(first);
  for (size_t begin = 0; begin < in.size(); begin += kDotTokens) {
    const int64_t tokens = std::min<int64_t>(kDotTokens, std::ssize(in) - static_cast<int64_t>(begin));
    QuantizedRow quantized[kDotTokens];
    float* result[kDotTokens];
    for (int64_t t = 0; t < tokens; ++t) {
      result[t] = linear.out + out[begin + t] * linear.rows + first;
      if (linear.quantized)
        quantized[t] = linear.quantized_row(in[begin + t]);
      else
        linear.kernels->dot_floats(rows, linear.row_bytes, count, linear.cols, linear.x + in[begin + t] * linear.cols,
                                   result[t]);
    }
    if (linear.quantized)
      linear.kernels->dot_codes(rows, linear.row_bytes, count, linear.cols, quantized, tokens, result);
    for (int64_t t = 0; linear.bias && t < tokens; ++t)
      for (int64_t r = 0; r < count; ++r) result[t][r] += linear.bias[first + r];
  }
}

} // namespace

Linear make_linear(const core::Weight& weight, const FormatKernels& kernels) {
  Linear linear = {};
  linear.kernels = &kernels;
  linear.matrix = weight.data;
  linear.row_bytes = weight.row_bytes;
  linear.rows = weight.rows;
  linear.cols = weight.cols;
  linear.run_rows = std::min(weight.rows, weight.rows_per_run());
  linear.run_stride = weight.run_rows > 0 ? weight.run_stride : weight.matrix_bytes();
  if (weight.run_rows == 1) { // a slice of columns
    linear.row_bytes = weight.run_stride;
    linear.run_rows = weight.rows;
    linear.run_stride = weight.rows * weight.run_stride;
  }
  return linear;
}

void run_dots(const Linear& linear, std::span<const int32_t> in, std::span<const int32_t> out, int64_t first,
              int64_t count) {
  const int64_t end = first + count;
  for (int64_t next; first < end; first = next) {
    next = std::min(end, (first / linear.run_rows + 1) * linear.run_rows);
    run_neighbors(linear, in, out, first, next - first);
  }
}

void run_panel(const Linear& linear, std::span<const int32_t> in, std::span<const int32_t> out, int64_t panel,
               LinearScratch& scratch) {
  const MatmulKernels& matmul = matmul_kernels();
  const auto tokens = static_cast<int64_t>(in.size());
  const auto [first, count] = linear.panel(panel);
  const std::byte* rows = linear.row(first);
  int64_t stride = tokens;
  if (linear.tiles && tokens >= kLeastTiledTokens && !linear.kernels->scale16) {
    const TokenTile x = linear.tile_of(in[0]);
    stride = round_up(tokens, TokenTile::kTokens);
    for (int64_t column = 0; column < linear.cols; column += kCodePanelCols) {
      linear.kernels->pack_codes(rows, linear.row_bytes, count, linear.cols, column, scratch.codes);
      matmul.tiles(scratch.codes, linear.kernels->has_offset, column, std::min(kCodePanelCols, linear.cols - column), x,
                   stride / TokenTile::kTokens, scratch.sums);
    }
  } else if (linear.quantized) {
    for (int64_t t = 0; t < tokens; ++t) scratch.quantized[t] = linear.quantized_row(in[t]);
    for (int64_t column = 0; column < linear.cols; column += kCodePanelCols) {
      linear.kernels->pack_codes(rows, linear.row_bytes, count, linear.cols, column, scratch.codes);
      matmul.codes(scratch.codes, linear.kernels->scale16, linear.kernels->has_offset, column,
                   std::min(kCodePanelCols, linear.cols - column), scratch.quantized, tokens, scratch.sums);
    }
  } else {
    for (int64_t t = 0; t < tokens; ++t) scratch.x[t] = linear.x + in[t] * linear.cols;
    for (int64_t column = 0; column < linear.cols; column += kFloatPanelCols) {
      linear.kernels->pack_floats(rows, linear.row_bytes, count, linear.cols, column, scratch.floats);
      matmul.floats(scratch.floats, column, std::min(kFloatPanelCols, linear.cols - column), scratch.x, tokens,
                    scratch.sums);
    }
  }
  for (int64_t t = 0; t < tokens; ++t) scratch.out[t] = linear.out + out[t] * linear.rows + first;
  matmul.reduce(scratch.sums, linear.quantized && !linear.kernels->scale16 ? kPartialSums / 2 : kPartialSums, stride,
                tokens, count, linear.bias ? linear.bias + first : nullptr, scratch.out);
}

std::vector<int64_t> guided_pieces(int64_t rows, int64_t row_bytes, int threads) {
  const int64_t smallest = std::max<int64_t>(1, 16384 / std::max<int64_t>(row_bytes, 1));
  std::vector<int64_t> bounds = {0};
  while (bounds.back() < rows) {
    const int64_t left = rows - bounds.back();
    bounds.push_back(bounds.back() + std::min(left, std::max(smallest, left / (2 * threads))));
  }
  return bounds;
}

} // namespace ridge::kernels::cpu
