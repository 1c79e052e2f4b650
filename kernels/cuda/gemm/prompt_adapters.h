// LoRA adapters in prompt products: [W | B] [x ; z] with z = scale * (A x), in more column tiles of both operands
// (prompt_product.h). Magnitudes of z are limited, so that results stay within their bounds (product_bound.h).
//
// W is multiplied by 2^kWeightExponent. B is not, but z is, and B has as few powers of two as z has room for: the
// inputs of down are small for f16, because they are scaled by a loose bound.
#pragma once

#include "kernels/cuda/gemm/product_bound.h"
#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"

#include <cstdint>
#include <span>

namespace ridge::kernels::cuda {

// z may exceed what scales of 1 give by this factor; more saturates.
inline constexpr int kMostPromptScale = 4;

// A product's adapters for prompts.
struct PromptAdapter {
  AdapterArgs args;                     // without A, factors and cut, which are of matvec kernels
  const uint16_t* a;                    // f16 [padded][cols], without the norm's weights
  const float* factors;                 // [padded]
  const float* limits;                  // [padded]: of z for inputs up to 1
  int64_t first_row[kMaxSegments] = {}; // of segments in B
  int first_column = 0;                 // of z
};

// Columns of z, eight by eight.
struct PromptAdapterInput {
  const uint16_t* x; // tiles
  uint16_t* z;       // tiles: f16, with the exponents of x
  int tokens, token_rows, cols;
  float largest;  // bounds elements of x
  int eights = 0; // of all columns
  struct Eight {
    const uint16_t* a;
    const float *factors, *limits;
    const int32_t* adapters;
  } eight[kMaxAdapterColumns / 8];

  const core::AdapterUse* uses; // [streams][adapters]
  int stream_adapters;
  const int32_t *positions, *streams, *outputs; // outputs null: every token has a row
};
void launch_prompt_adapter_input(const Launch&, std::span<const PromptAdapter> adapters, PromptAdapterInput input);

// Rows of B in the column tiles behind those of W.
struct PromptAdapterRows {
  const uint16_t* b; // the first row; null: zeros
  int64_t pitch;     // halves
  int rows, first;   // row r becomes row first + r * stride of the operand
  int first_column, columns;
};
struct PromptAdapterWeights {
  int segments = 0, stride = 1;
  uint8_t* out = nullptr; // the first of these column tiles
  int out_rows = 0, tiles = 0;
  PromptAdapterRows segment[kMaxSegments];
};
void launch_prompt_adapter_weights(const Launch&, const PromptAdapterWeights& weights);

// Moves powers of two from B's columns to the factors, as far as z fits f16 then, and sets limits. Call after A and B
// are packed and factors are complete.
struct BalancedAdapter {
  const uint16_t* a; // [rank][cols]
  uint16_t* b;       // [rows][stride]
  int64_t rank, cols, rows, stride;
  float *factors, *more_factors, *limits; // [rank]; more_factors: of decoding
};
void balance_prompt_adapter(const Launch&, const BalancedAdapter& adapter);
// Raises a product's bound by B [rows][stride], of which `rank` columns count.
void add_adapter_bound(const Launch&, const uint16_t* b, int64_t rows, int64_t stride, int64_t rank,
                       const float* limits, ProductBound* bound);

} // namespace ridge::kernels::cuda
