// Lazy views of plain or packed matrices; they store only index tables.
#pragma once

#include "convert/import/matrices/matrix.h"

#include <functional>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

// Numbers from `first` on, as [rows, cols] or stored transposed. Throws Error for types other than F64, F32, F16, BF16.
Matrix plain_matrix(const gguf::SafeTensor& tensor, int64_t first, int64_t rows, int64_t cols, bool transposed = false);

// The rows of all, which are plain and equally wide.
Matrix stacked(std::vector<Matrix> matrices);

// The plain matrix of a packed one.
Matrix unpacked(Matrix matrix);

// Row r is source[r].
Matrix pick_rows(Matrix matrix, std::vector<int64_t> source);
// Column c is source[c]. Throws Error if it splits packed groups.
Matrix pick_cols(Matrix matrix, std::vector<int64_t> source, std::string_view name);
// Unpacks it if need be.
Matrix transposed(Matrix matrix);
// Throws Error if packed without float scales.
Matrix scale_rows(Matrix matrix, std::function<float(int64_t row)> factor, std::string_view name);
// Throws Error if packed.
Matrix map_numbers(Matrix matrix, std::function<float(float)> change, std::string_view name);

// To -m, 0 and m, where m is the mean of the magnitudes of all numbers. Packed matrices stay.
Matrix ternary(Matrix matrix);

} // namespace ridge::convert::import
