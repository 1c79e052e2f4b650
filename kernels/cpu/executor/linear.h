#pragma once

#include "core/program.h"
#include "kernels/cpu/formats/kernels.h"

#include <algorithm>
#include <span>
#include <vector>

namespace ridge::kernels::cpu {

// out[out_row] = W x[in_row] (+ bias).
struct Linear {
  const FormatKernels* kernels;
  const std::byte* matrix;
  int64_t row_bytes, rows, cols;
  const float* x;       // [in rows][cols]
  std::byte* quantized; // QuantizedRows of x; null: f32
  std::byte* tiles;     // TokenTiles of x, or null
  bool wide;            // 16-bit activations
  float* out;           // [out rows][rows]
  const float* bias;    // [rows] or null
  // Runs of run_rows rows start run_stride bytes apart (core::Weight).
  int64_t run_rows, run_stride;

  // Up to kPanelRows rows of one run.
  struct Panel {
    int64_t first, count;
  };
  int64_t panels() const { return rows / run_rows * panels_of_run(); }
  Panel panel(int64_t i) const {
    const int64_t in_run = i % panels_of_run() * kPanelRows;
    return {i / panels_of_run() * run_rows + in_run, std::min(kPanelRows, run_rows - in_run)};
  }
  const std::byte* row(int64_t i) const { return matrix + i / run_rows * run_stride + i % run_rows * row_bytes; }

  QuantizedRow quantized_row(int64_t row) const {
    const int64_t padded = round_up(cols, kChunk);
    return {quantized + row * QuantizedRow::bytes(padded, wide), padded, wide};
  }
  TokenTile tile_of(int64_t row) const {
    return TokenTile{tiles, round_up(cols, kChunk), wide}.next(row / TokenTile::kTokens);
  }

 private:
  int64_t panels_of_run() const { return (run_rows + kPanelRows - 1) / kPanelRows; }
};

// Without inputs, outputs and bias. `kernels` must outlive it.
Linear make_linear(const core::Weight& weight, const FormatKernels& kernels);

// Up to this many tokens, rows are unpacked one by one; above, as transposed panels.
inline constexpr int64_t kMaxDotTokens = 2;
inline constexpr int64_t kTokenBlock = 256;

struct LinearScratch {
  CodePanel codes;
  FloatPanel floats;
  alignas(64) float sums[kPartialSums * kTokenBlock * kPanelRows];
  QuantizedRow quantized[kTokenBlock];
  const float* x[kTokenBlock];
  float* out[kTokenBlock];
};

// Rows [first, first + count) for tokens in[i] -> out[i].
void run_dots(const Linear& linear, std::span<const int32_t> in, std::span<const int32_t> out, int64_t first,
              int64_t count);
// One panel, at most kTokenBlock tokens. With `tiles`, in: neighbours from a multiple of TokenTile::kTokens.
void run_panel(const Linear& linear, std::span<const int32_t> in, std::span<const int32_t> out, int64_t panel,
               LinearScratch& scratch);

// Row boundaries for dynamic scheduling: decreasing pieces of at least 16 KB.
std::vector<int64_t> guided_pieces(int64_t rows, int64_t row_bytes, int threads);

} // namespace ridge::kernels::cpu
