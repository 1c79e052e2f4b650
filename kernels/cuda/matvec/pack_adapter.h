// Packs a LoRA adapter (AdapterSegment) into f16. Powers of two move from A's rows and B's columns to the factors, so
// that f16 loses nothing but its 11 bits.
#pragma once

#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// `a`: [rank][cols]; `norm`: [cols] or null; `factors`: [rank]. Call before pack_adapter_b with `b`: [rows][rank].
void pack_adapter_a(const Launch&, const AdapterSegment& to, const float* a, const float* norm, const float* factors,
                    int64_t cols);
void pack_adapter_b(const Launch&, const AdapterSegment& to, const float* b, int64_t rows);

} // namespace ridge::kernels::cuda
