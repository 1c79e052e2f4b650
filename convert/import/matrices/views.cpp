#include "convert/import/matrices/views.h"

#include "core/error.h"
#include "core/half.h"
#include "quant/formats/level_tables.h"
#include "quant/formats/mxfp4.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

namespace ridge::convert::import {
namespace {

// Reads rows source[first], … Contiguous ranges, in any order, take one read.
template <typename T>
Matrix::Reader<T> rows_of(Matrix::Reader<T> read, std::shared_ptr<const std::vector<int64_t>> source, int64_t width) {
  if (!read) return nullptr;
  return [read = std::move(read), source = std::move(source), width](int64_t first, int64_t count, T* out) {
    if (count == 0) return;
    const auto wanted = std::span(*source).subspan(first, count);
    const auto [low, high] = std::ranges::minmax(wanted);
    if (high - low < 2 * count) {
      std::vector<T> all((high - low + 1) * width);
      read(low, high - low + 1, all.data());
      for (int64_t r = 0; r < count; ++r) std::copy_n(all.data() + (wanted[r] - low) * width, width, out + r * width);
      return;
    }
    for (int64_t r = 0, run = 1; r < count; r += run) {
      for (run = 1; r + run < count && wanted[r + run] == wanted[r] + run;) ++run;
      read(wanted[r], run, out + r * width);
    }
  };
}

template <typename T>
Matrix::Reader<T> cols_of(Matrix::Reader<T> read, std::vector<int64_t> source, int64_t width) {
  if (!read) return nullptr;
  return [read = std::move(read), source = std::move(source), width](int64_t first, int64_t count, T* out) {
    std::vector<T> rows(count * width);
    read(first, count, rows.data());
    for (const T* row = rows.data(); row < rows.data() + count * width; row += width)
      for (const int64_t c : source) *out++ = row[c];
  };
}

void require_plain(const Matrix& matrix, std::string_view name, std::string_view what) {
  if (matrix.scheme != Scheme::plain)
    throw_error("{}: is packed, but {}: such a matrix cannot be converted", name, what);
}

} // namespace

Matrix plain_matrix(const gguf::SafeTensor& tensor, int64_t first, int64_t rows, int64_t cols, bool transposed) {
  Matrix matrix{.rows = rows, .cols = cols, .dtype = tensor.dtype, .parts = {&tensor}};
  read_floats(tensor, 0, 0, nullptr); // throws for other types
  if (!transposed) {
    matrix.floats = [&tensor, first, cols](int64_t row, int64_t count, float* out) {
      read_floats(tensor, first + row * cols, count * cols, out);
    };
    return matrix;
  }
  matrix.floats = [&tensor, first, rows, cols](int64_t row, int64_t count, float* out) {
    std::vector<float> column(count);
    for (int64_t c = 0; c < cols; ++c) {
      read_floats(tensor, first + c * rows + row, count, column.data());
      for (int64_t r = 0; r < count; ++r) out[r * cols + c] = column[r];
    }
  };
  return matrix;
}

Matrix stacked(std::vector<Matrix> matrices) {
  Matrix whole{.cols = matrices.front().cols, .dtype = matrices.front().dtype};
  std::vector<int64_t> ends;
  for (const Matrix& matrix : matrices) {
    ends.push_back(whole.rows += matrix.rows);
    whole.parts.insert(whole.parts.end(), matrix.parts.begin(), matrix.parts.end());
  }
  whole.floats = [all = std::make_shared<const std::vector<Matrix>>(std::move(matrices)),
                  ends](int64_t first, int64_t count, float* out) {
    for (size_t i = std::ranges::upper_bound(ends, first) - ends.begin(); count > 0; ++i) {
      const int64_t begin = ends[i] - (*all)[i].rows, taken = std::min(count, ends[i] - first);
      (*all)[i].floats(first - begin, taken, out);
      first += taken;
      count -= taken;
      out += taken * (*all)[i].cols;
    }
  };
  return whole;
}

Matrix pick_rows(Matrix matrix, std::vector<int64_t> source) {
  const auto shared = std::make_shared<const std::vector<int64_t>>(std::move(source));
  const int64_t groups = matrix.scheme == Scheme::plain ? 0 : matrix.groups();
  matrix.rows = std::ssize(*shared);
  matrix.floats = rows_of(std::move(matrix.floats), shared, matrix.cols);
  matrix.codes = rows_of(std::move(matrix.codes), shared, matrix.cols);
  matrix.scales = rows_of(std::move(matrix.scales), shared, groups);
  matrix.scale_bytes = rows_of(std::move(matrix.scale_bytes), shared, groups);
  matrix.zeros = rows_of(std::move(matrix.zeros), shared, groups);
  return matrix;
}

Matrix pick_cols(Matrix matrix, std::vector<int64_t> source, std::string_view name) {
  if (matrix.scheme != Scheme::plain) {
    // Groups move with their scales.
    std::vector<int64_t> groups;
    bool whole = matrix.order.empty();
    for (int64_t c = 0; c < std::ssize(source); ++c) {
      if (c % matrix.group == 0) groups.push_back(source[c] / matrix.group);
      whole &= source[c] == groups.back() * matrix.group + c % matrix.group;
    }
    if (!whole)
      throw_error("{}: is packed in groups of {} columns, wider than the heads that are reordered: such a matrix "
                  "cannot be converted",
                  name, matrix.group);
    matrix.scales = cols_of(std::move(matrix.scales), groups, matrix.groups());
    matrix.scale_bytes = cols_of(std::move(matrix.scale_bytes), groups, matrix.groups());
    matrix.zeros = cols_of(std::move(matrix.zeros), groups, matrix.groups());
  }
  matrix.floats = cols_of(std::move(matrix.floats), source, matrix.cols);
  matrix.codes = cols_of(std::move(matrix.codes), source, matrix.cols);
  matrix.cols = std::ssize(source);
  return matrix;
}

Matrix unpacked(Matrix matrix) {
  if (matrix.scheme == Scheme::plain) return matrix;
  Matrix plain{.rows = matrix.rows, .cols = matrix.cols, .dtype = gguf::Dtype::F16, .parts = matrix.parts};
  plain.floats = [packed = std::move(matrix)](int64_t first, int64_t count, float* out) {
    const int64_t cols = packed.cols, groups = packed.groups();
    std::vector<uint8_t> codes(count * cols), bytes(packed.scale_bytes ? count * groups : 0);
    std::vector<float> scales(packed.scales ? count * groups : 0);
    std::vector<int16_t> zeros(count * groups, static_cast<int16_t>(packed.bits > 0 ? 1 << (packed.bits - 1) : 0));
    packed.codes(first, count, codes.data());
    if (packed.scales) packed.scales(first, count, scales.data());
    if (packed.scale_bytes) packed.scale_bytes(first, count, bytes.data());
    if (packed.zeros) packed.zeros(first, count, zeros.data());
    for (int64_t i = 0; i < count * cols; ++i) {
      const int64_t row = i / cols, col = i % cols, group = row * groups + col / packed.group;
      float number = 0;
      switch (packed.scheme) {
      case Scheme::affine: number = scales[group] * static_cast<float>(codes[i] - zeros[group]); break;
      case Scheme::nf4: number = scales[group] * quant::kNf4Levels[codes[i]]; break;
      case Scheme::fp4: number = scales[group] * quant::kFp4Levels[codes[i]]; break;
      case Scheme::fp8_e4m3: number = scales[group] * core::f32_from_e4m3(codes[i]); break;
      case Scheme::mxfp4:
        number = std::ldexp(static_cast<float>(quant::doubled_e2m1(codes[i])), bytes[group] - 128);
        break;
      default: number = core::f32_from_e4m3(bytes[group]) * quant::doubled_e2m1(codes[i]) / 2 * packed.matrix_scale;
      }
      out[row * cols + (packed.order.empty() ? col : packed.order[col])] = number;
    }
  };
  return plain;
}

Matrix transposed(Matrix matrix) {
  matrix = unpacked(std::move(matrix));
  std::swap(matrix.rows, matrix.cols);
  matrix.floats = [read = std::move(matrix.floats), rows = matrix.rows, cols = matrix.cols](int64_t first,
                                                                                            int64_t count, float* out) {
    std::vector<float> row(rows);
    for (int64_t c = 0; c < cols; ++c) {
      read(c, 1, row.data());
      for (int64_t r = 0; r < count; ++r) out[r * cols + c] = row[first + r];
    }
  };
  return matrix;
}

Matrix scale_rows(Matrix matrix, std::function<float(int64_t)> factor, std::string_view name) {
  const bool plain = matrix.scheme == Scheme::plain;
  if (!plain && !matrix.scales) require_plain(matrix, name, "its rows are scaled");
  Matrix::Reader<float>& scaled = plain ? matrix.floats : matrix.scales;
  scaled = [read = std::move(scaled), factor = std::move(factor),
            width = plain ? matrix.cols : matrix.groups()](int64_t first, int64_t count, float* out) {
    read(first, count, out);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < width; ++c) out[r * width + c] *= factor(first + r);
  };
  return matrix;
}

Matrix map_numbers(Matrix matrix, std::function<float(float)> change, std::string_view name) {
  require_plain(matrix, name, "its values change");
  matrix.floats = [read = std::move(matrix.floats), change = std::move(change),
                   cols = matrix.cols](int64_t first, int64_t count, float* out) {
    read(first, count, out);
    std::transform(out, out + count * cols, out, change);
  };
  return matrix;
}

Matrix ternary(Matrix matrix) {
  if (matrix.scheme != Scheme::plain) return matrix;
  const auto mean = [read = matrix.floats, rows = matrix.rows, cols = matrix.cols] {
    constexpr float kLeast = 1e-5f;
    std::vector<float> row(cols);
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      read(r, 1, row.data());
      for (const float number : row) sum += std::abs(number);
    }
    return std::max(kLeast, static_cast<float>(sum / static_cast<double>(rows * cols)));
  };
  matrix.floats = [read = std::move(matrix.floats), mean, found = std::make_shared<std::optional<float>>(),
                   cols = matrix.cols](int64_t first, int64_t count, float* out) {
    if (!*found) *found = mean();
    const float m = **found;
    read(first, count, out);
    std::transform(out, out + count * cols, out,
                   [m](float number) { return std::clamp(std::nearbyint(number / m), -1.0f, 1.0f) * m; });
  };
  return matrix;
}

} // namespace ridge::convert::import
