// Error feedback (GPTQ: Frantar et al. 2022, in the equivalent form LDLQ): columns are rounded in order; later columns
// compensate each error as far as inputs correlate.
//
// Scales are searched when a block is reached, with importance D (quant/feedback/hessian.h), a column's remaining error
// cost.
#pragma once

#include "quant/feedback/hessian.h"
#include "quant/formats/group.h"
#include "quant/registry.h"

#include <functional>
#include <span>
#include <vector>

namespace ridge::quant {

// Formats with integer codes.
bool can_encode_with_feedback(Type type);

void encode_with_feedback(Type type, const float* weights, int64_t rows, int64_t cols, const CpuHessian::Factor& factor,
                          std::byte* out);

// Calls work(first row, rows) for `step` rows at a time, in parallel, and rethrows what one of the calls threw.
void for_rows(int64_t rows, int64_t step, const std::function<void(int64_t, int64_t)>& work);

// Rows that one thread should encode at a time: each time it reads the whole factor, but work is divided by rows. Of
// 14,336 columns: 32 rows 17.5, 64 22.3, 128 24.5 billion products a second (AVX-512, one core).
inline constexpr int64_t kFeedbackRows = 64;

// On one thread, [rows][blocks of a row]: with feedback, and by the plain search with column importance.
std::vector<Parts> feedback_parts(Type type, const float* weights, int64_t rows, int64_t cols,
                                  const CpuHessian::Factor& factor);
std::vector<Parts> search_parts(Type type, const float* weights, int64_t rows, int64_t cols,
                                std::span<const float> importance);

} // namespace ridge::quant
