// Row orders of models::Rows.
#pragma once

#include "convert/import/config/config.h"
#include "convert/import/matrices/matrix.h"

#include <functional>
#include <string>
#include <vector>

namespace ridge::convert::import {

// Row r comes from row [r] of the checkpoint; empty: identity. Throws Error (with the name) if hyperparameters do not
// divide the rows.
std::vector<int64_t> row_order(models::Rows order, int64_t rows, const Config& config, const std::string& name);

// Rows::output_groups.
std::vector<Matrix> output_groups(const Matrix& matrix, const Config& config, const std::string& name);
// Per-head parts of MLA's expansion matrix: Rows::mla_keys or Rows::mla_values.
std::vector<Matrix> mla_heads(const Matrix& matrix, models::Rows part, const Config& config, const std::string& name);

// Falcon-H1's factors for rows of a Mamba 2 input matrix.
std::function<float(int64_t row)> ssm_multipliers(const Config& config);

} // namespace ridge::convert::import
