// The orders of rows that an architecture's rules name (models::Rows).
#pragma once

#include "convert/import/config.h"
#include "convert/import/matrices/matrix.h"

#include <functional>
#include <string>
#include <vector>

namespace ridge::convert::import {

// Row r of the tensor is row [r] of the checkpoint's `rows`; empty: all as they are. Throws Error, which names the
// tensor, where the hyperparameters do not divide the rows so.
std::vector<int64_t> row_order(models::Rows order, int64_t rows, const Config& config, const std::string& name);

// Each head's part of the matrix with which multi-head latent attention expands keys and values: Rows::mla_keys or
// Rows::mla_values.
std::vector<Matrix> mla_heads(const Matrix& matrix, models::Rows part, const Config& config, const std::string& name);

// The factors of Falcon-H1 for the rows of a Mamba 2 layer's input matrix.
std::function<float(int64_t row)> ssm_multipliers(const Config& config);

} // namespace ridge::convert::import
