// Matrix times activations: which kernel serves how many tokens, and in what pieces.
#pragma once

#include "core/program.h"
#include "kernels/cpu/formats/kernels.h"

#include <algorithm>
#include <span>
#include <vector>

namespace ridge::kernels::cpu {

// out[out_row] = W x[in_row] (+ bias) for one matrix and some rows of activations.
struct Linear {
  const FormatKernels* kernels;
  const std::byte* matrix;
  int64_t row_bytes, rows, cols;
  const float* x;       // [in rows][cols]
  std::byte* quantized; // the same as QuantizedRows; null: compute with f32
  bool wide;            // they are wide
  float* out;           // [out rows][rows]
  const float* bias;    // [rows] or null
  // Rows come in runs of as many, which start so many bytes apart (core::Weight); whole runs make the matrix.
  int64_t run_rows, run_stride;

  // A panel is up to kPanelRows neighbouring rows of one run.
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

 private:
  int64_t panels_of_run() const { return (run_rows + kPanelRows - 1) / kPanelRows; }
};

// For up to this many tokens rows are unpacked one by one; above, panels of them are unpacked and transposed.
inline constexpr int64_t kMostDotTokens = 2;
inline constexpr int64_t kTokenBlock = 256; // tokens that a panel is multiplied with at most

// Scratch of one thread.
struct LinearScratch {
  CodePanel codes;
  FloatPanel floats;
  alignas(64) float sums[kTokenBlock][kPartialSums][kPanelRows];
  QuantizedRow quantized[kTokenBlock];
  const float* x[kTokenBlock];
};

// Rows [first, first + count) of the matrix for the tokens in[i] -> out[i], one dot product at a time.
void run_dots(const Linear& linear, std::span<const int32_t> in, std::span<const int32_t> out, int64_t first,
              int64_t count);
// The same for one panel and at most kTokenBlock tokens.
void run_panel(const Linear& linear, std::span<const int32_t> in, std::span<const int32_t> out, int64_t panel,
               LinearScratch& scratch);

// Row boundaries of pieces for dynamic scheduling: large ones first, then ever smaller ones so that all threads finish
// together, none under 16 KB of weights.
std::vector<int64_t> guided_pieces(int64_t rows, int64_t row_bytes, int threads);

} // namespace ridge::kernels::cpu
