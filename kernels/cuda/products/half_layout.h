// Memory layouts of f16 activations.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

enum class HalfLayout : uint8_t {
  rows,        // row-major (gemm.h)
  interleaved, // small_batch/batch.cuh
  tiles,       // gemm/prompt_product.h
  wide,        // small_batch/wide_batch.cuh
  sorted_wide, // likewise, in tiles of one expert
  bytes,       // gemm/integer_product.cuh
};

// Bytes: for every 64 columns all rows, padded to kByteTokens. Activations are divided by 2^exponent of their row
// (gemm.h), then rounded in two groups of 32. A row has 64 bytes and 16 bytes of padding, which avoid bank conflicts.
//
// The padding of 64 rows holds their scales (f32) and their groups' sums (f16), ordered so that the lane with tokens
// 8 i + g loads four at once: the padding of row 8 q + g holds the scales of group q / 2 and i = 4 (q % 2) … + 3 for
// q < 4, and the sums of both groups and i = 4 (q - 4) … + 3 for q = 4 and 5.
inline constexpr int kByteColumns = 64, kByteRowBytes = kByteColumns + 16, kByteTokens = 128, kByteSumRow = 32;
RIDGE_HD constexpr int64_t byte_row_place(int64_t rows, int64_t row, int64_t column) { // in bytes
  return (column / kByteColumns * ((rows + kByteTokens - 1) / kByteTokens * kByteTokens) + row) * kByteRowBytes;
}
// Where the scale and the sum of group 0 or 1 of a row lie, in bytes from byte_row_place() of the first of its 64 rows.
RIDGE_HD constexpr int byte_scale_place(int row_of_64, int group) {
  return (8 * (2 * group + row_of_64 / 32) + row_of_64 % 8) * kByteRowBytes + kByteColumns + row_of_64 / 8 % 4 * 4;
}
RIDGE_HD constexpr int byte_sum_place(int row_of_64, int group) {
  return (kByteSumRow + 8 * (row_of_64 / 32) + row_of_64 % 8) * kByteRowBytes + kByteColumns + row_of_64 / 8 % 4 * 4 +
         2 * group;
}

// Chunks of 1024 columns of all rows, so that one copy brings a chunk of many rows; 64 bytes between rows avoid bank
// conflicts.
//
// A piece is eight columns, each four ordered first, third, second, fourth, so that packed codes become halves without
// reordering. Pieces of four spans (32 columns) alternate, so that lanes with a span each read neighbouring pieces.
inline constexpr int kChunkColumns = 1024, kChunkPieces = kChunkColumns / 8, kChunkPitch = (kChunkPieces + 4) * 16;

RIDGE_HD constexpr int64_t chunks_of(int64_t cols) { return (cols + kChunkColumns - 1) / kChunkColumns; }
RIDGE_HD constexpr int64_t interleaved_bytes(int64_t rows, int64_t cols) {
  return chunks_of(cols) * rows * kChunkPitch;
}
// In pieces; unsigned and 32 bits, so that divisions are shifts (activations have fewer than 2^32 elements).
RIDGE_HD constexpr uint32_t interleaved_place(uint32_t piece) {
  return piece / 16 * 16 + piece % 4 * 4 + piece / 4 % 4;
}
RIDGE_HD constexpr uint32_t interleaved_place(uint32_t rows, uint32_t row, uint32_t piece) {
  return (piece / kChunkPieces * rows + row) * (kChunkPitch / 16) + interleaved_place(piece % kChunkPieces);
}
RIDGE_HD constexpr uint32_t interleaved_column(uint32_t column) {
  return column % 4 == 1 || column % 4 == 2 ? column ^ 3 : column;
}

// Tiles of up to 256 rows, for every 128 columns, each as two tiles of 64 columns as in prompt_product.h. A
// lane of four decodes a span of 32 columns and brings four to a product of 16: product j has columns 4 j … 4 j + 3 of
// each span, in mma's order: first and third of each span, then second and fourth.
inline constexpr int kWideColumns = 128, kMaxWideTile = 256;
inline constexpr int kCountedTile = 160; // of experts; as many rows as tokens are multiplied
RIDGE_HD constexpr int wide_tiles(int64_t rows) { return static_cast<int>((rows + kMaxWideTile - 1) / kMaxWideTile); }
// 32, 64, 96, 128, 192 or 256.
RIDGE_HD constexpr int wide_tile_rows(int64_t rows) {
  const int tiles = wide_tiles(rows), needed = static_cast<int>((rows + tiles - 1) / tiles);
  const int step = needed <= 128 ? 32 : 64;
  return (needed + step - 1) & -step;
}
// In halves; `unit`: the tile's 128 columns. Column c + 2 follows c if c % 4 < 2.
RIDGE_HD constexpr uint32_t wide_unit_place(uint32_t tile_rows, uint32_t unit, uint32_t row, uint32_t column) {
  const uint32_t span = column % kWideColumns / 32, product = column % 32 / 4;
  const uint32_t at = product % 4 * 16 + column % 2 * 8 + span * 2 + column % 4 / 2;
  return ((2 * unit + product / 4) * tile_rows + row) * 64 + (at / 8 ^ row % 8) * 8 + at % 8;
}
// `tile`: row / tile_rows.
RIDGE_HD constexpr uint32_t wide_place(uint32_t rows, uint32_t tile_rows, uint32_t tile, uint32_t row,
                                       uint32_t column) {
  return wide_unit_place(tile_rows, column / kWideColumns * wide_tiles(rows) + tile, row - tile * tile_rows, column);
}
// All columns of a tile are contiguous.
RIDGE_HD constexpr uint32_t sorted_wide_place(uint32_t tile_rows, uint32_t cols, uint32_t tile, uint32_t row,
                                              uint32_t column) {
  const uint32_t units = (cols + kWideColumns - 1) / kWideColumns;
  return wide_unit_place(tile_rows, tile * units + column / kWideColumns, row, column);
}

} // namespace ridge::kernels::cuda
