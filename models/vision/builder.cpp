#include "models/vision/builder.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "quant/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace ridge::models::vision {

using core::OpKind;
using core::ValueId;
using core::WeightId;

Builder::Builder(const gguf::File& file, int64_t width, int64_t height)
    : file_(file), hparams_(file), prefix_("v."), width_px_(width), height_px_(height) {}

Builder::Builder(const gguf::File& file) : file_(file), hparams_(file, Media::sound), prefix_("a.") {}

const gguf::Tensor& Builder::tensor(const std::string& name) {
  const gguf::Tensor* tensor = file_.find_tensor(name);
  used_.insert(name);
  if (!tensor) throw_error("{}: tensor {} is missing: the file is incomplete", file_.path(), name);
  return *tensor;
}

int64_t Builder::rows_of(const std::string& name) const {
  const gguf::Tensor* tensor = file_.find_tensor(name + ".weight");
  if (!tensor) throw_error("{}: tensor {}.weight is missing: the file is incomplete", file_.path(), name);
  return tensor->dims[1];
}

void Builder::misshapen(const gguf::Tensor& tensor, int64_t cols, int64_t rows) const {
  throw_error("{}: tensor {} has shape [{}, {}, {}, {}], expected {} rows of {}", file_.path(), tensor.name,
              tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3], rows, cols);
}

// A tensor of any shape as a matrix; rows must be whole blocks.
core::Weight Builder::view(const std::string& name, int64_t cols, int64_t rows) {
  const gguf::Tensor& t = tensor(name);
  const quant::FormatInfo* format = t.type.format();
  if (!format) throw_error("{}: tensor {} has type {}, which is not a weight type", file_.path(), name, t.type.name());
  const bool flat = t.dims[0] != cols && t.type.block_weights() > 1; // blocks would span rows
  if (t.weights() != cols * rows || flat) misshapen(t, cols, rows);
  return {name, t.type.id(), cols, rows, 1, format->row_bytes(cols), t.data.data()};
}

WeightId Builder::add_weight(core::Weight weight) {
  program().weights.push_back(std::move(weight));
  return static_cast<WeightId>(program().weights.size() - 1);
}

WeightId Builder::matrix(const std::string& name, int64_t cols, int64_t rows) {
  const gguf::Tensor& t = tensor(name);
  if (t.dims[0] != cols || t.dims[1] != rows) misshapen(t, cols, rows);
  return add_weight(view(name, cols, rows));
}

// Norms and biases may be F16; executors read f32.
WeightId Builder::vector(const std::string& name, int64_t width) {
  core::Weight weight = view(name, width, 1);
  if (weight.type == core::kFloatType) return add_weight(std::move(weight));
  return constant(name, values(name, width));
}

WeightId Builder::constant(const std::string& name, std::span<const float> values, int64_t rows) {
  const auto bytes = std::as_bytes(values);
  auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return add_weight(
      {name, core::kFloatType, std::ssize(values) / rows, rows, 1, std::ssize(*owned) / rows, owned->data(), owned});
}

std::vector<float> Builder::values(const std::string& name, int64_t count) {
  const gguf::Tensor& t = tensor(name);
  const int64_t cols = t.type.block_weights() > 1 && count % t.dims[0] == 0 ? t.dims[0] : count;
  const core::Weight weight = view(name, cols, count / cols);
  std::vector<float> made(count);
  quant::find_format(weight.type)->decode(weight.data, count, made.data());
  return made;
}

ValueId Builder::emit(OpKind kind, const std::string& name, std::vector<ValueId> inputs, int64_t width,
                      std::vector<WeightId> weights, core::OpParams params) {
  program().values.push_back({name, width});
  const auto out = static_cast<ValueId>(program().values.size() - 1);
  program().ops.push_back({kind, layer_, name, std::move(inputs), {out}, std::move(weights), std::move(params)});
  return out;
}

ValueId Builder::begin(const std::string& input, int64_t width) {
  layer_ = -1;
  core::Program& program = encoder_.stages.emplace_back().program;
  program.architecture = "clip";
  program.label = hparams_.media() == Media::picture ? "encoder of pictures" : "encoder of sound";
  program.vocab = 1; // rows have no ids
  program.has_token_coordinates = true;
  program.values.push_back({input, width});
  program.input = 0;
  return 0;
}

ValueId Builder::begin_given(int64_t width, int64_t group, std::vector<int32_t> from) {
  encoder_.input_width = width;
  const ValueId input = begin("given rows", group * width);
  stage().group = group;
  stage().from = std::move(from);
  return input;
}

core::ActivationParams Builder::activation() const {
  constexpr float kQuick = 1.702f; // quick GELU
  if (hparams_.flag("clip.use_gelu")) return {core::Activation::gelu};
  if (hparams_.flag("clip.use_silu")) return {core::Activation::silu};
  return {core::Activation::silu, kQuick};
}

ValueId Builder::patches(int64_t side, int64_t more, const Step& first) {
  return patches(side, more, first, "v.patch_embd", hparams_.width());
}

ValueId Builder::patches(int64_t side, int64_t more, const Step& first, const std::string& name, int64_t width) {
  columns_ = width_px_ / side;
  lines_ = height_px_ / side;
  const int64_t count = columns_ * lines_, pixels = 3 * side * side;
  if (count < 1)
    throw_error("{}: a tile of {} × {} pixels cannot be divided into patches of {}", file_.path(), width_px_,
                height_px_, side);
  constexpr int64_t kMaxPatches = 1 << 16; // attention takes minutes
  if (count > kMaxPatches)
    throw_error("{}: a tile of {} × {} pixels has more than {} patches of {}", file_.path(), width_px_, height_px_,
                kMaxPatches, side);
  encoder_.patch = side;
  encoder_.input_width = pixels;
  grid_ = {columns_, lines_};
  ValueId input = begin("patches", pixels);
  stage().from.resize(count + more, -1);
  std::iota(stage().from.begin(), stage().from.begin() + count, 0);
  if (first) input = first(input);
  std::vector<WeightId> weights = {add_weight(view(name + ".weight", pixels, width))};
  if (more == 0 && has(name + ".bias")) weights.push_back(vector(name + ".bias", width));
  ValueId x = emit(OpKind::linear, name, {input}, width, std::move(weights));
  if (const std::string second = name + ".weight.1"; has(second)) // of the second of two equal frames
    x = add(x, emit(OpKind::linear, name + ".1", {input}, width, {add_weight(view(second, pixels, width))}),
            name + "_add");
  return x;
}

ValueId Builder::add_rows(ValueId x, const std::string& name, std::span<const float> table) {
  const int64_t width = width_of(x);
  return add(x, rows(name, table, width), name + "_add");
}

ValueId Builder::rows(const std::string& name, std::span<const float> table, int64_t width) {
  return emit(OpKind::embed, name, {}, width, {constant(name, table, std::ssize(table) / width)},
              core::EmbedParams{1, true});
}

ValueId Builder::add_to_patches(ValueId x, const std::string& name, std::span<const float> table) {
  const int64_t width = width_of(x);
  std::vector<float> rows;
  for (const int32_t patch : stage().from) {
    if (patch >= 0)
      rows.insert(rows.end(), table.begin() + patch * width, table.begin() + (patch + 1) * width);
    else
      rows.resize(rows.size() + width);
  }
  return add_rows(x, name, rows);
}

ValueId Builder::add_vector(ValueId x, const std::string& name, std::span<const float> vector) {
  return add(x, emit(OpKind::embed, name, {}, width_of(x), {constant(name, vector)}, core::EmbedParams{}),
             name + "_add");
}

std::vector<float> Builder::table_with_class() {
  const bool has_class = has("v.class_embd");
  const int64_t width = hparams_.width(), patches = columns_ * lines_;
  std::vector<float> table = values("v.position_embd.weight", (patches + (has_class ? 1 : 0)) * width);
  if (has_class && has("v.patch_embd.bias")) { // else patches() adds it
    const std::vector<float> bias = values("v.patch_embd.bias", width);
    for (int64_t i = 0; i < patches * width; ++i) table[i] += bias[i % width];
  }
  if (has_class) {
    const std::vector<float> own = values("v.class_embd", width);
    for (int64_t i = 0; i < width; ++i) table[patches * width + i] += own[i];
  }
  return table;
}

int32_t Builder::rope(const RopeSpec& spec) {
  if (spec.dims % 4 != 0 || spec.dims < 4)
    throw_error("{}: heads of {} elements, expected a multiple of 4", file_.path(), spec.dims);
  core::RopeTable table = {{}, 1, spec.style};
  const int64_t half = spec.dims / 4;
  for (int64_t pair = 0; pair < 2 * half; ++pair) {
    const bool second = pair >= half;
    const double exponent = -static_cast<double>(pair % half) / static_cast<double>(half);
    table.inverse_frequency.push_back(
        static_cast<float>(std::pow(spec.base, exponent) * (second ? spec.second_factor : 1)));
    table.axes.push_back(static_cast<uint8_t>(second ? 3 - spec.first_axis : spec.first_axis));
  }
  if (stage().axes.empty())
    for (const int32_t patch : stage().from) {
      const auto at = [&](int64_t place) { return patch < 0 ? 0 : static_cast<int32_t>(place) + spec.first; };
      for (const int32_t place : {0, at(patch / columns_), at(patch % columns_), 0}) stage().axes.push_back(place);
    }
  return rope(std::move(table));
}

int32_t Builder::rope(core::RopeTable table) {
  program().rope_tables.push_back(std::move(table));
  return static_cast<int32_t>(program().rope_tables.size() - 1);
}

ValueId Builder::norm(ValueId x, const std::string& name, Norm kind) {
  return norm(x, name, kind, epsilon(), width_of(x));
}

ValueId Builder::norm(ValueId x, const std::string& name, Norm kind, float epsilon, int64_t group) {
  std::vector<WeightId> weights = {vector(name + ".weight", group)};
  if (kind == Norm::layer && has(name + ".bias")) weights.push_back(vector(name + ".bias", group));
  return emit(kind == Norm::layer ? OpKind::layer_norm : OpKind::rms_norm, name, {x}, width_of(x), std::move(weights),
              core::NormParams{epsilon, group});
}

ValueId Builder::unit_norm(ValueId x, const std::string& name, int64_t group) {
  return emit(OpKind::rms_norm, name, {x}, width_of(x), {constant(name, std::vector<float>(group, 1))},
              core::NormParams{epsilon(), group});
}

// Applies NAME.input_min and so on, if present.
ValueId Builder::clamped(ValueId x, const std::string& name, std::string_view which) {
  const std::string low = fmt::format("{}.{}_min", name, which), high = fmt::format("{}.{}_max", name, which);
  if (!has(low) && !has(high)) return x;
  constexpr float kMax = std::numeric_limits<float>::max();
  const core::ClampParams limits = {has(low) ? values(low, 1)[0] : -kMax, has(high) ? values(high, 1)[0] : kMax};
  if (!(limits.low <= limits.high))
    throw_error("{}: {} is {}, above {} of {}", file_.path(), low, limits.low, limits.high, high);
  return emit(OpKind::clamp, fmt::format("{}.{}", name, which), {x}, width_of(x), {}, limits);
}

ValueId Builder::linear(ValueId x, const std::string& name, int64_t rows) {
  x = clamped(x, name, "input");
  std::vector<WeightId> weights = {matrix(name + ".weight", width_of(x), rows)};
  if (has(name + ".bias")) weights.push_back(vector(name + ".bias", rows));
  return clamped(emit(OpKind::linear, name, {x}, rows, std::move(weights)), name, "output");
}
ValueId Builder::linear(ValueId x, const std::string& name) { return linear(x, name, rows_of(name)); }

std::vector<float> Builder::linear_of(std::span<const float> row, const std::string& name) {
  const int64_t cols = std::ssize(row), rows = rows_of(name);
  const std::vector<float> weights = values(name + ".weight", cols * rows);
  std::vector<float> made = has(name + ".bias") ? values(name + ".bias", rows) : std::vector<float>(rows);
  for (int64_t i = 0; i < rows; ++i)
    made[i] += static_cast<float>(std::inner_product(row.begin(), row.end(), weights.begin() + i * cols, 0.0));
  return made;
}

ValueId Builder::activate(ValueId x, const std::string& name, core::ActivationParams params) {
  return emit(OpKind::activate, name, {x}, width_of(x), {}, params);
}

ValueId Builder::add(ValueId a, ValueId b, const std::string& name, float scale) {
  return emit(OpKind::add, name, {a, b}, width_of(a), {}, core::AddParams{scale});
}

ValueId Builder::fold(ValueId x, const std::string& name, int64_t width, double scale) {
  return emit(OpKind::fold, name, {x}, width, {}, core::FoldParams{static_cast<float>(scale)});
}

ValueId Builder::concat(ValueId a, ValueId b, const std::string& name) {
  return emit(OpKind::concat, name, {a, b}, width_of(a) + width_of(b));
}

ValueId Builder::permute(ValueId x, const std::string& name, std::span<const int32_t> order, int64_t group) {
  const auto bytes = std::as_bytes(order);
  auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const WeightId weight =
      add_weight({name, core::kOrderType, std::ssize(order), 1, 1, std::ssize(*owned), owned->data(), owned});
  return emit(OpKind::permute, name, {x}, width_of(x) / group * std::ssize(order), {weight},
              core::PermuteParams{group});
}

ValueId Builder::times(ValueId x, const std::string& name) {
  return emit(OpKind::activate, name, {x}, width_of(x), {vector(name, width_of(x))},
              core::ActivationParams{core::Activation::identity});
}
ValueId Builder::times(ValueId x, const std::string& name, std::span<const float> factors) {
  return emit(OpKind::activate, name, {x}, width_of(x), {constant(name, factors)},
              core::ActivationParams{core::Activation::identity});
}

ValueId Builder::before_heads(ValueId x, int64_t heads, ValueId part, const std::string& name) {
  const int64_t width = width_of(x), dim = width / heads, own = width_of(part);
  std::vector<int32_t> order;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < own; ++i) order.push_back(static_cast<int32_t>(i));
    for (int64_t i = 0; i < dim; ++i) order.push_back(static_cast<int32_t>(own + h * dim + i));
  }
  return permute(concat(part, x, name + " all"), name, order, own + width);
}

void Builder::skip_layer(int64_t il) {
  const std::string blk = own(fmt::format("blk.{}.", il));
  for (const gguf::Tensor& tensor : file_.tensors())
    if (tensor.name.starts_with(blk)) skip(tensor.name);
}

void Builder::refuse_unused() const {
  const auto is_of_this = [&](std::string_view name) {
    const bool of_sound = name.starts_with("mm.a.");
    if (hparams_.media() == Media::sound) return of_sound || name.starts_with(prefix_);
    return name.starts_with(prefix_) || name.starts_with("resampler.") || (name.starts_with("mm.") && !of_sound);
  };
  for (const gguf::Tensor& tensor : file_.tensors())
    if (is_of_this(tensor.name) && !used_.contains(tensor.name))
      throw_error("{}: tensor {} is not used by this kind of projector: its purpose is not supported yet", file_.path(),
                  core::printable(tensor.name));
}

Encoder Builder::finish() && {
  refuse_unused();
  for (const Stage& stage : encoder_.stages) core::validate(stage.program);
  return std::move(encoder_);
}

} // namespace ridge::models::vision
