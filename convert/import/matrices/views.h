// Matrices made of other matrices: some of the rows, columns in another order, numbers changed. They read when they are
// read, so they take no memory but their tables, and they work for packed matrices as for plain ones.
#pragma once

#include "convert/import/matrices/matrix.h"

#include <functional>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

// The numbers of a tensor from `first` on as a matrix [rows, cols], or as one that is stored transposed. A vector is a
// matrix with one column. Throws Error for other types than F64, F32, F16 and BF16.
Matrix plain_matrix(const gguf::SafeTensor& tensor, int64_t first, int64_t rows, int64_t cols, bool transposed = false);

// Row r is row source[r] of the matrix.
Matrix pick_rows(Matrix matrix, std::vector<int64_t> source);
// Column c is column source[c] of the matrix. Throws Error where a packed matrix would lose its groups of columns.
Matrix pick_cols(Matrix matrix, std::vector<int64_t> source, std::string_view name);
// Rows become columns. Throws Error for a packed matrix.
Matrix transposed(Matrix matrix, std::string_view name);
// Each row times its factor. Throws Error for a packed matrix whose scales are no floats.
Matrix scale_rows(Matrix matrix, std::function<float(int64_t row)> factor, std::string_view name);
// Each number changed. Throws Error for a packed matrix.
Matrix map_numbers(Matrix matrix, std::function<float(float)> change, std::string_view name);

} // namespace ridge::convert::import
