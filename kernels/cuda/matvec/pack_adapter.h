// Packs a LoRA adapter into f16 (AdapterArgs). Powers of two move from A's rows and B's columns to the factors, so that
// no value leaves f16's range.
#pragma once

#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// A [rows][cols] times the norm's weights (or null); factors [rows].
void pack_adapter_a(const Launch&, const float* a, int64_t rows, int64_t cols, const float* norm, const float* factors,
                    uint16_t* to, float* to_factors);
// B [rows][columns], after pack_adapter_a. more_factors: of another A, or null.
void pack_adapter_b(const Launch&, const float* b, int64_t rows, int64_t columns, uint16_t* to, int64_t to_stride,
                    float* factors, float* more_factors);

} // namespace ridge::kernels::cuda
