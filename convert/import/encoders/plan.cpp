#include "convert/import/encoders/plan.h"

#include "convert/import/matrices/views.h"
#include "core/error.h"
#include "models/recipes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace ridge::convert::import {

using gguf::SafeTensor, models::vision::Media;

namespace {

constexpr std::string_view kRoots[] = {"model.", "thinker.", ""};

// Empty names: no such tensors.
EncoderPlan::Tower find_tower(const EncoderFamily& family, const gguf::Safetensors& tensors) {
  for (const std::string_view tower : family.towers)
    for (const std::string_view root : kRoots) {
      std::string whole = std::string(root) + std::string(tower);
      if (std::ranges::any_of(tensors.tensors(), [&](const SafeTensor& t) { return t.name.starts_with(whole); }))
        return {std::move(whole), std::string(root)};
    }
  return {};
}

std::string numbered(std::string_view name, int64_t number) {
  std::string made(name);
  return made.replace(made.find("{}"), 2, std::to_string(number));
}

std::vector<int64_t> range(int64_t first, int64_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Output computed_output(const std::string& name, std::vector<int64_t> dims, std::vector<float> values) {
  return {{name, quant::Type::F32, std::move(dims)},
          [values = std::move(values)](const Sink& sink) { sink(std::as_bytes(std::span(values))); },
          {}};
}

[[noreturn]] void refuse(const SafeTensor& tensor, std::string_view expected) {
  throw_error("tensor {}: has shape [{}], expected {}", tensor.name, fmt::join(tensor.shape, ", "), expected);
}

} // namespace

bool has_encoder(const EncoderFamily& family, const gguf::Safetensors& tensors) {
  return !find_tower(family, tensors).name.empty();
}

EncoderPlan::EncoderPlan(const gguf::Safetensors& tensors, const EncoderFamily& family, const EncoderFields& fields,
                         std::optional<quant::Type> type)
    : tensors_(tensors), family_(family), fields_(fields), type_(type), tower_(find_tower(family, tensors)),
      reader_(tensors, fields.config()) {}

void EncoderPlan::run() {
  const char* own = family_.media == Media::picture ? "v" : "a";
  add_rules(tower_.name, "", family_.tower);
  for (int64_t il = 0; il < fields_.written("block_count"); ++il)
    add_rules(fmt::format("{}{}{}.", tower_.name, family_.layers, il), fmt::format("{}.blk.{}.", own, il),
              family_.layer);
  add_rules(tower_.root, "", family_.beside);
  check_all_used();
}

void EncoderPlan::add_table_row(const std::string& table, int64_t token) {
  const SafeTensor* rows = tensors_.find(table);
  if (!rows || rows->shape.size() != 2 || token >= rows->shape[0])
    throw_error("tensor {}: has no row {} for {}", table, token, family_.table_row);
  Matrix row = pick_rows(plain_matrix(*rows, 0, rows->shape[0], rows->shape[1]), {token});
  outputs.push_back(vector_output({transposed(std::move(row))}, "v.token_embd.img_break", {rows->shape[1]}));
}

void EncoderPlan::add_rules(const std::string& from, const std::string& to, std::span<const EncoderRule> rules) {
  for (const EncoderRule& rule : rules) {
    if (rule.from.find("{}") == std::string_view::npos) {
      add_rule(from + std::string(rule.from), to + std::string(rule.to), rule);
      continue;
    }
    int64_t number = 0;
    for (const int64_t layer : fields_.layers_of(family_.numbered))
      add_rule(from + numbered(rule.from, number++), numbered(rule.to, layer), rule);
  }
}

void EncoderPlan::add_rule(const std::string& from, const std::string& to, const EncoderRule& rule) {
  const Take take = rule.take;
  if (take == Take::sinusoids) return add_sinusoids(to);
  if (take == Take::norm_factor || take == Take::norm_shift) return add_batch_norm(from, to, take);
  if (const SafeTensor* tensor = tensors_.find(from)) return add(*tensor, to, take);
  if (!reader_.has(from)) {
    if (!rule.required) return;
    throw_error("tensor {} is missing: the checkpoint is incomplete or config.json belongs to another one", from);
  }
  if (const SafeTensor* weight = tensors_.find(from + ".weight"); weight && weight->shape.size() != 2) {
    add(*weight, to + ".weight", take);
  } else {
    Matrix matrix = reader_.read(from);
    const std::vector<int64_t> dims = {matrix.cols, matrix.rows};
    for (const SafeTensor* part : matrix.parts) used_.insert(part->name);
    add_matrix(std::move(matrix), to + ".weight", take, dims);
  }
  if (const SafeTensor* bias = tensors_.find(from + ".bias")) add(*bias, to + ".bias", take);
}

void EncoderPlan::add(const SafeTensor& tensor, const std::string& to, Take take) {
  used_.insert(tensor.name);
  std::vector<int64_t> shape = tensor.shape;
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  if (take == Take::squeezed) std::erase(shape, 1);
  if (tensor.elements() == 0 || shape.size() > 5) refuse(tensor, "numbers");
  if (shape.size() < 2) {
    std::vector<Matrix> vectors;
    Matrix column = plain_matrix(tensor, 0, tensor.elements(), 1);
    if (take == Take::colors_first) column = pick_rows(std::move(column), colors_first(tensor, tensor.elements()));
    vectors.push_back(taken(std::move(column), take, tensor.name));
    std::vector<int64_t> dims = {vectors.front().rows};
    if (take == Take::one_column || take == Take::one_pixel)
      dims.insert(dims.begin(), take == Take::one_pixel ? 2 : 1, 1);
    outputs.push_back(vector_output(std::move(vectors), to, std::move(dims)));
    return;
  }
  std::vector<int64_t> dims(shape.rbegin(), shape.rend());
  // Kernel rows: all weights of an output; else the innermost dimension.
  const int64_t rows = shape.size() > 3 ? shape.front() : tensor.elements() / shape.back();
  Matrix matrix = plain_matrix(tensor, 0, rows, tensor.elements() / rows);
  if (take == Take::first_frame || take == Take::second_frame) {
    if (shape.size() != 5 || shape[2] != 2) refuse(tensor, "a kernel for two frames [rows, colours, 2, y, x]");
    std::vector<int64_t> columns;
    const int64_t patch = shape[3] * shape[4];
    for (int64_t color = 0; color < shape[1]; ++color)
      for (const int64_t column : range((2 * color + (take == Take::second_frame ? 1 : 0)) * patch, patch))
        columns.push_back(column);
    matrix = pick_cols(std::move(matrix), std::move(columns), tensor.name);
    dims = {shape[4], shape[3], shape[1], shape[0]};
  }
  if (take == Take::colors_first) {
    const std::vector<int64_t> columns = colors_first(tensor, shape.back());
    matrix = pick_cols(std::move(matrix), columns, tensor.name);
    if (const int64_t side = fields_.written("patch_size"); !family_.layer.empty()) dims = {side, side, 3, shape[0]};
  }
  if (take == Take::axes_first) {
    if (shape.size() != 3 || shape[1] != 2) refuse(tensor, "a table [places, 2, width]");
    std::vector<int64_t> order;
    for (int64_t axis = 0; axis < 2; ++axis)
      for (int64_t place = 0; place < shape[0]; ++place) order.push_back(2 * place + axis);
    matrix = pick_rows(std::move(matrix), std::move(order));
    dims = {shape[2], shape[0], 2};
  }
  if (dims.size() > gguf::kMaxDims) refuse(tensor, "at most four dimensions");
  add_matrix(std::move(matrix), to, take, std::move(dims));
}

// Without layers, a patch is a token.
std::vector<int64_t> EncoderPlan::colors_first(const SafeTensor& tensor, int64_t columns) const {
  const int64_t side =
      fields_.written("patch_size") * (family_.layer.empty() ? fields_.written("projector.scale_factor") : 1);
  const int64_t pixels = side * side;
  if (columns != 3 * pixels) refuse(tensor, fmt::format("{} columns", 3 * pixels));
  std::vector<int64_t> order;
  for (int64_t color = 0; color < 3; ++color)
    for (int64_t pixel = 0; pixel < pixels; ++pixel) order.push_back(3 * pixel + color);
  return order;
}

void EncoderPlan::add_matrix(Matrix matrix, const std::string& to, Take take, std::vector<int64_t> dims) {
  matrix = taken(std::move(matrix), take, to);
  if (dims.size() == 2) dims[1] = matrix.rows;
  const std::optional<quant::Type> type = type_of({to, quant::Type::F32, dims});
  std::vector<Matrix> one;
  one.push_back(std::move(matrix));
  std::string scheme;
  const std::string name = to.ends_with(".weight") ? to.substr(0, to.size() - 7) : to;
  std::vector<Output> made = outputs_of(std::move(one), name, type, scheme);
  if (!scheme.empty() || made.size() != 1) throw_error("tensor {}: its packing is not supported for encoders", to);
  made.front().info.name = to;
  made.front().info.dims = std::move(dims);
  outputs.push_back(std::move(made.front()));
}

// At inference, a batch norm is a factor and a shift of each channel.
void EncoderPlan::add_batch_norm(const std::string& from, const std::string& to, Take take) {
  constexpr float kEpsilon = 1e-5f;
  std::array<std::vector<float>, 4> parts; // weight, bias, mean, variance
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = from + std::array{".weight", ".bias", ".running_mean", ".running_var"}[i];
    const SafeTensor* tensor = tensors_.find(name);
    if (!tensor)
      throw_error("tensor {} is missing: the checkpoint is incomplete or config.json belongs to another one", name);
    if (tensor->shape.size() != 1 || tensor->elements() == 0) refuse(*tensor, "a vector");
    used_.insert(tensor->name);
    parts[i].resize(tensor->elements());
    read_floats(*tensor, 0, tensor->elements(), parts[i].data());
    if (parts[i].size() != parts[0].size()) refuse(*tensor, fmt::format("{} numbers", parts[0].size()));
  }
  const auto& [weight, bias, mean, variance] = parts;
  std::vector<float> made(weight.size());
  for (size_t i = 0; i < made.size(); ++i) {
    const float factor = weight[i] / std::sqrt(variance[i] + kEpsilon);
    made[i] = take == Take::norm_factor ? factor : bias[i] - mean[i] * factor;
  }
  const int64_t count = std::ssize(made);
  outputs.push_back(computed_output(to, {count}, std::move(made)));
}

void EncoderPlan::add_sinusoids(const std::string& to) {
  constexpr int64_t kPlaces = 1500, kMaxWidth = 1 << 16;
  const int64_t width = fields_.written("embedding_length"), half = width / 2;
  if (half < 2 || width % 2 != 0 || width > kMaxWidth)
    throw_error("{}: a table of waves needs an even width, not {}", fields_.where(family_.section), width);
  const double step = std::log(10000.0) / static_cast<double>(half - 1);
  std::vector<float> table;
  for (int64_t place = 0; place < kPlaces; ++place)
    for (int64_t i = 0; i < width; ++i) {
      const double angle = static_cast<double>(place) * std::exp(-static_cast<double>(i % half) * step);
      table.push_back(static_cast<float>(i < half ? std::sin(angle) : std::cos(angle)));
    }
  outputs.push_back(computed_output(to, {width, kPlaces}, std::move(table)));
}

Matrix EncoderPlan::taken(Matrix matrix, Take take, const std::string& name) const {
  const int64_t rows = matrix.rows;
  const auto third = [&](int64_t which) {
    if (rows % 3 != 0) throw_error("tensor {}: {} rows cannot be divided into queries, keys and values", name, rows);
    return pick_rows(std::move(matrix), range(which * rows / 3, rows / 3));
  };
  switch (take) {
  case Take::first_third: return third(0);
  case Take::second_third: return third(1);
  case Take::last_third: return third(2);
  case Take::rope_pairs: {
    const int64_t heads = fields_.written("attention.head_count"), dim = heads > 0 ? rows / heads : 0;
    if (dim < 2 || dim % 2 != 0 || dim * heads != rows)
      throw_error("tensor {}: {} rows do not match {} heads", name, rows, heads);
    std::vector<int64_t> order(rows);
    for (int64_t r = 0; r < rows; ++r) order[r] = r / dim * dim + r % 2 * (dim / 2) + r % dim / 2;
    return pick_rows(std::move(matrix), std::move(order));
  }
  case Take::plus_one:
    return map_numbers(
        std::move(matrix), [](float x) { return x + 1; }, name);
  case Take::softplus:
    return map_numbers(
        std::move(matrix), [](float x) { return x > 20 ? x : std::log1p(std::exp(x)); }, name);
  case Take::class_last: {
    std::vector<int64_t> order = range(1, rows);
    order.back() = 0;
    return pick_rows(std::move(matrix), std::move(order));
  }
  default: return matrix;
  }
}

// Patch embeddings, positions and kernels stay as they are: they are small and critical. Other matrices use the
// requested float type.
std::optional<quant::Type> EncoderPlan::type_of(const gguf::TensorInfo& tensor) const {
  if (tensor.name.starts_with("a.conv") && tensor.dims.size() > 2) return family_.kernels;
  if (models::is_quantizable(tensor)) return type_;
  if (tensor.dims.size() > 2 || !tensor.name.starts_with("mm.")) return quant::Type::F32;
  return type_ && quant::format(*type_).packed ? quant::Type::F16 : type_;
}

// Without this check, tensors could get lost silently.
void EncoderPlan::check_all_used() const {
  const auto belongs = [&](const std::string& name) {
    return name.starts_with(tower_.name) || std::ranges::any_of(family_.beside, [&](const EncoderRule& rule) {
             return name.starts_with(tower_.root + std::string(rule.from.substr(0, rule.from.find('.') + 1)));
           });
  };
  for (const SafeTensor& tensor : tensors_.tensors()) {
    if (used_.contains(tensor.name) || !belongs(tensor.name) || tensor.name.ends_with("position_ids")) continue;
    if (std::ranges::any_of(family_.unused, [&](auto part) { return tensor.name.find(part) != std::string::npos; }))
      continue;
    throw_error("{}: tensor {} is not used by an encoder of the kind {}: the checkpoint does not match config.json",
                tensors_.path_of(tensor), tensor.name, family_.projector);
  }
}

} // namespace ridge::convert::import
