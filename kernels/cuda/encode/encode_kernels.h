#pragma once

#include "quant/registry.h"

#include <cuda_runtime.h>

namespace ridge::kernels::cuda {

// weights: a multiple of block_weights.
void decode_weights(quant::Type type, const uint8_t* blocks, int64_t weights, float* out, cudaStream_t stream);

// Lowers *first_bad to first_index + the index of the first NaN or infinity.
void find_not_finite(const float* weights, int64_t count, uint64_t first_index, unsigned long long* first_bad,
                     cudaStream_t stream);

bool has_encode_kernel(quant::Type type);

// importance: of a whole row, or nullptr. first_block: index in the tensor.
void encode_weights(quant::Type type, const float* weights, const float* importance, int64_t first_block,
                    int64_t blocks_per_row, int64_t blocks, uint8_t* out, cudaStream_t stream);

} // namespace ridge::kernels::cuda
