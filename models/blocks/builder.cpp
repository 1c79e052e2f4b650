#include "models/blocks/builder.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/blocks/blocks.h"

#include <cmath>
#include <cstring>
#include <span>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

static bool is_drafted(Ending ending) { return ending == Ending::drafted || ending == Ending::drafted_pictures; }

bool Builder::has_vocabulary() const {
  const std::string_view model = file_.get_string("tokenizer.ggml.model", "none");
  return model != "none" && model != "no_vocab";
}

Builder::Builder(const gguf::File& file, Ending ending, std::optional<int64_t> draft_head, const gguf::File* partner)
    : file_(file), hparams_(file), draft_head_(draft_head),
      keeps_hidden_((is_drafted(ending) && !partner) || draft_head), partner_(partner),
      embeds_(ending == Ending::hidden || ending == Ending::encoded), encodes_(ending == Ending::encoded) {
  program_.architecture = hparams_.architecture();
  program_.trained_context = hparams_.context();
  if (ending == Ending::pictures || ending == Ending::drafted_pictures) {
    program_.has_token_coordinates = true;
    program_.row_width = hparams_.width();
  }
  if (partner && is_drafted(ending)) taken_ = Builder(*partner).taken_rows();
}

std::string Builder::begin_layer(int64_t il) {
  layer_ = static_cast<int32_t>(draft_head_ ? 0 : il); // a draft head's Program has one layer
  return layer_name(il);
}

std::string Builder::layer_name(int64_t il) const { return fmt::format("{}blk.{}.", stack_, il); }

std::pair<int64_t, int64_t> Builder::sides_of(const std::string& name) const {
  if (const auto planar = PlanarWeight::find(file_, name)) return {planar->cols(), planar->rows()};
  const gguf::Tensor* tensor = file_.find_tensor(name);
  return tensor ? std::pair(tensor->dims[0], tensor->dims[1]) : std::pair<int64_t, int64_t>(0, 0);
}

core::Weight Builder::tensor_weight(const std::string& name, int64_t cols, int64_t rows, int64_t count) {
  if (const auto planar = PlanarWeight::find(file_, name)) {
    if (!planar->input_order().empty())
      throw_error("{}: {}: a matrix whose columns are in another order cannot be divided", file_.path(), name);
    const auto known = divided_.find(name);
    return known != divided_.end() ? known->second
                                   : divided_.emplace(name, planar_tensor(*planar, cols, rows, count)).first->second;
  }
  const gguf::Tensor* tensor = file_.find_tensor(name);
  used_tensors_.insert(name);
  if (!tensor)
    throw_error("{}: tensor {} is missing: the file is incomplete or not a {} model", file_.path(), name,
                program_.architecture);
  const auto& dims = tensor->dims;
  if (dims[0] != cols || dims[1] != rows || dims[2] != count || dims[3] != 1)
    throw_error("{}: tensor {} has shape [{}, {}, {}, {}], expected [{}, {}, {}, 1]", file_.path(), name, dims[0],
                dims[1], dims[2], dims[3], cols, rows, count);
  const auto type = static_cast<uint32_t>(tensor->type);
  const quant::FormatInfo* format = quant::find_format(type);
  if (!format) throw_error("{}: tensor {} has type id {}, which is not a weight type", file_.path(), name, type);
  return {name, type, cols, rows, count, format->row_bytes(cols), tensor->data.data()};
}

WeightId Builder::add_weight(core::Weight weight) {
  program_.weights.push_back(std::move(weight));
  return static_cast<WeightId>(program_.weights.size() - 1);
}

WeightId Builder::weight(const std::string& name, int64_t cols, int64_t rows, int64_t count) {
  for (size_t i = 0; i < program_.weights.size(); ++i)
    if (program_.weights[i].name == name && program_.weights[i].part.empty()) return static_cast<WeightId>(i);
  if (const auto planar = PlanarWeight::find(file_, name)) return planar_weight(*planar, cols, rows, count);
  return add_weight(tensor_weight(name, cols, rows, count));
}

WeightId Builder::slice(const std::string& name, int64_t cols, const RowSlice& rows, int64_t count) {
  core::Weight weight = tensor_weight(name, cols, rows.tensor_rows, count);
  weight.part = rows.part;
  weight.rows = rows.rows;
  weight.data += rows.first * weight.row_bytes;
  if (rows.run > 0 || count > 1) {
    weight.run_rows = rows.run > 0 ? rows.run : rows.rows;
    weight.run_stride = (rows.run > 0 ? rows.stride : rows.tensor_rows) * weight.row_bytes;
  }
  return add_weight(std::move(weight));
}

WeightId Builder::reordered(const std::string& name, int64_t cols, int64_t tensor_rows, std::string_view part,
                            const std::vector<int64_t>& order) {
  core::Weight weight = tensor_weight(name, cols, tensor_rows, 1);
  auto copy = std::make_shared<std::vector<std::byte>>(order.size() * weight.row_bytes);
  for (size_t i = 0; i < order.size(); ++i)
    std::memcpy(copy->data() + i * weight.row_bytes, weight.row(order[i]), weight.row_bytes);
  weight.part = part;
  weight.rows = std::ssize(order);
  weight.data = copy->data();
  weight.owned = std::move(copy);
  return add_weight(std::move(weight));
}

// Schemes without a GGUF type are repacked in memory into a format that executors know.
core::Weight Builder::planar_tensor(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count) {
  for (const gguf::Tensor* tensor : planar.tensors()) used_tensors_.emplace(tensor->name);
  if (planar.cols() != cols || planar.rows() != rows || planar.count() != count)
    throw_error("{}: weight {} has shape [{}, {}, {}], expected [{}, {}, {}]", file_.path(), planar.name(),
                planar.cols(), planar.rows(), planar.count(), cols, rows, count);
  const quant::FormatInfo& format = quant::format(planar.type());
  const int64_t row_bytes = format.row_bytes(planar.cols());
  auto data = std::make_shared<std::vector<std::byte>>(row_bytes * rows * count);
  planar.assemble(0, rows * count, data->data());
  return {planar.name(), static_cast<uint32_t>(planar.type()), cols, rows, count, row_bytes, data->data(), data};
}

WeightId Builder::planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count) {
  const WeightId id = add_weight(planar_tensor(planar, cols, rows, count));
  const std::vector<int32_t> order = planar.input_order();
  if (order.empty()) return id;
  const auto bytes = std::as_bytes(std::span(order));
  auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const int64_t columns = std::ssize(order);
  program_.weights.push_back(
      {planar.name() + ".order", core::kOrderType, columns, 1, 1, 4 * columns, owned->data(), owned});
  order_of_weight_[id] = {id + 1, cols};
  return id;
}

ValueId Builder::in_order_of(WeightId id, ValueId x) {
  const auto found = order_of_weight_.find(id);
  if (found == order_of_weight_.end()) return x;
  const auto [order_id, group] = found->second;
  const core::Weight& order = program_.weights[order_id];
  for (const core::Op& op : program_.ops) {
    if (op.kind != OpKind::permute || op.inputs[0] != x) continue;
    const core::Weight& other = program_.weights[op.weights[0]];
    if (other.cols == order.cols && std::memcmp(other.data, order.data, order.total_bytes()) == 0) return op.outputs[0];
  }
  return emit(OpKind::permute, order.name, {x}, width_of(x) / group * order.cols, {order_id},
              core::PermuteParams{group});
}

// Executors read norms and biases as f32.
WeightId Builder::vector(const std::string& name, int64_t width) {
  const WeightId id = weight(name, width, 1);
  require_f32(program_.weights[id]);
  return id;
}

WeightId Builder::constant(const std::string& name, std::span<const float> values, int64_t rows) {
  const auto bytes = std::as_bytes(values);
  auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return add_weight(
      {name, core::kFloatType, std::ssize(values) / rows, rows, 1, std::ssize(*owned) / rows, owned->data(), owned});
}
WeightId Builder::constant(const std::string& name, int64_t width, float value, int64_t rows) {
  return constant(name, std::vector<float>(width * rows, value), rows);
}

WeightId Builder::integers(const std::string& name, std::span<const int32_t> values) {
  const auto bytes = std::as_bytes(values);
  auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return add_weight({name, core::kOrderType, std::ssize(values), 1, 1, std::ssize(*owned), owned->data(), owned});
}

WeightId Builder::repeated_ids(const std::string& name, int64_t count, int64_t times) {
  core::Weight factors = tensor_weight(name, 1, count, 1);
  require_f32(factors);
  auto copy = std::make_shared<std::vector<std::byte>>();
  for (int64_t i = 0; i < count * times; ++i)
    copy->insert(copy->end(), factors.row(i / times), factors.row(i / times) + sizeof(float));
  factors.cols = count * times;
  factors.rows = 1;
  factors.row_bytes = std::ssize(*copy);
  factors.data = copy->data();
  factors.owned = std::move(copy);
  return add_weight(std::move(factors));
}

WeightId Builder::flat_vector(const std::string& name, int64_t width) {
  const gguf::Tensor* tensor = file_.find_tensor(name);
  if (!tensor || tensor->dims[0] == width || tensor->weights() != width) return vector(name, width);
  core::Weight flat = tensor_weight(name, tensor->dims[0], tensor->dims[1], tensor->dims[2]);
  require_f32(flat);
  flat.cols = width;
  flat.rows = flat.count = 1;
  flat.row_bytes = width * static_cast<int64_t>(sizeof(float));
  return add_weight(std::move(flat));
}

void Builder::require_f32(const core::Weight& weight) const {
  if (weight.type != static_cast<uint32_t>(quant::Type::F32))
    throw_error("{}: tensor {} has type {}, expected F32", file_.path(), weight.name,
                quant::find_format(weight.type)->name);
}

ValueId Builder::value(std::string name, int64_t width, bool is_gathered, core::ValueKind kind) {
  program_.values.push_back({std::move(name), width, kind, is_gathered});
  return static_cast<ValueId>(program_.values.size() - 1);
}

ValueId Builder::emit(OpKind kind, const std::string& name, std::vector<ValueId> inputs, int64_t width,
                      std::vector<WeightId> weights, core::OpParams params) {
  const bool out_gathered = kind == OpKind::gather || (!inputs.empty() && gathered(inputs[0]));
  const ValueId out = value(name, width, out_gathered);
  program_.ops.push_back({kind, layer_, name, std::move(inputs), {out}, std::move(weights), std::move(params)});
  return out;
}

ValueId Builder::input_row_slice(int64_t slice, const std::string& name) {
  const int64_t width = hparams_.width();
  program_.row_width = std::max(program_.row_width, (slice + 1) * width);
  return emit(OpKind::given, name, {}, width, {}, core::GivenParams{slice * width});
}

ValueId Builder::embed(double scale, core::RowUse rows, const std::string& plus) {
  const int64_t width = hparams_.width();
  // Files may omit one of two tied matrices.
  std::string name = has("token_embd.weight") || !has("output.weight") ? "token_embd.weight" : "output.weight";
  if (const gguf::Tensor* table = file_.find_tensor(name)) program_.vocab = table->dims[1];
  if (draft_head_ && has(draft_name("embed_tokens.weight"))) name = draft_name("embed_tokens.weight");
  std::vector<WeightId> weights = {weight(name, width, program_.vocab)};
  if (const std::string types = "token_types.weight"; has(types)) {
    const core::Weight table = tensor_weight(types, width, file_.find_tensor(types)->dims[1], 1);
    std::vector<float> first(width);
    quant::find_format(table.type)->decode(table.data, width, first.data());
    weights.push_back(constant(types, first));
  }
  if (!plus.empty()) weights.push_back(vector(plus, width));
  return emit(OpKind::embed, "token_embd", {}, width, std::move(weights),
              core::EmbedParams{static_cast<float>(scale), false, rows});
}

ValueId Builder::embed_positions() {
  const gguf::Tensor* table = file_.find_tensor("position_embd.weight");
  const int64_t width = hparams_.width(), rows = table ? table->dims[1] : hparams_.context();
  return emit(OpKind::embed, "position_embd", {}, width, {weight("position_embd.weight", width, rows)},
              core::EmbedParams{1, true});
}

ValueId Builder::rms_norm(ValueId x, const std::string& tensor, double scale) {
  const ValueId normed = group_norm(x, tensor, width_of(x));
  if (scale != 1) scale_weight(program_.ops.back().weights[0], scale);
  return normed;
}
ValueId Builder::layer_norm(ValueId x, const std::string& tensor) {
  return group_norm(x, tensor, width_of(x), NormKind::layer);
}

ValueId Builder::group_norm(ValueId x, const std::string& tensor, int64_t group, NormKind kind) {
  const std::string name = has(tensor) ? tensor : tensor + ".weight";
  const gguf::Tensor* weights = file_.find_tensor(name);
  const bool own = weights && weights->weights() == width_of(x);
  const int64_t groups = width_of(x) / group;
  const bool factors = weights && group > 1 && weights->dims[0] == 1 && weights->weights() == groups;
  const int64_t width = own || factors ? width_of(x) : group;
  std::vector<WeightId> vectors;
  if (factors)
    vectors.push_back(repeated_ids(name, groups, group));
  else
    vectors.push_back(bare_norms_ && !weights ? constant(name, width, 1) : flat_vector(name, width));
  const bool centered = kind == NormKind::layer;
  const float epsilon = centered ? hparams_.layer_norm_epsilon() : hparams_.norm_epsilon();
  if (kind != NormKind::rms && has(tensor + ".bias")) vectors.push_back(flat_vector(tensor + ".bias", width));
  if (!centered && vectors.size() == 1)
    return emit(OpKind::rms_norm, tensor, {x}, width_of(x), vectors, core::NormParams{epsilon, group});
  return emit(OpKind::layer_norm, tensor, {x}, width_of(x), vectors, core::NormParams{epsilon, group, centered});
}

ValueId Builder::unit_norm(ValueId x, const std::string& name, int64_t group) {
  return emit(OpKind::rms_norm, name, {x}, width_of(x), {constant(name, group, 1)},
              core::NormParams{hparams_.norm_epsilon(), group});
}

ValueId Builder::linear(ValueId x, const std::string& tensor, int64_t rows, bool bias) {
  if (const std::string twin = twin_ ? twin_(tensor) : ""; !twin.empty())
    return linear_of_twins(x, tensor, twin, {"", rows, 0, rows});
  std::vector<WeightId> weights = {weight(tensor + ".weight", width_of(x), rows)};
  x = in_order_of(weights[0], x);
  const bool scaled = has(tensor + ".scale") && !used_tensors_.contains(tensor + ".scale");
  if (!bias) skip(tensor + ".bias");
  if (bias && has(tensor + ".bias")) weights.push_back(vector(tensor + ".bias", rows));
  if (scaled && weights.size() > 1) throw_error("{}: {} has a scale and a bias", file_.path(), tensor);
  const ValueId y = emit(OpKind::linear, tensor, {x}, rows, std::move(weights));
  return scaled ? scaled_by(y, tensor + ".scale") : y;
}

ValueId Builder::scaled_by(ValueId x, const std::string& tensor) {
  const core::Weight weight = tensor_weight(tensor, 1, 1, 1);
  require_f32(weight);
  core::ActivationParams params = {core::Activation::identity};
  std::memcpy(&params.alpha, weight.data, sizeof params.alpha);
  return emit(OpKind::activate, tensor, {x}, width_of(x), {}, params);
}

ValueId Builder::scaled(ValueId x, const std::string& name, double factor) {
  return emit(OpKind::activate, name, {x}, width_of(x), {},
              core::ActivationParams{core::Activation::identity, static_cast<float>(factor)});
}

ValueId Builder::linear_of(ValueId x, const std::string& tensor, const RowSlice& rows, const std::string& own_bias,
                           bool with_bias) {
  if (const std::string twin = twin_ ? twin_(tensor) : ""; !twin.empty()) return linear_of_twins(x, tensor, twin, rows);
  std::vector<WeightId> weights = {slice(tensor + ".weight", width_of(x), rows)};
  if (const std::string bias = tensor + ".bias"; with_bias && has(bias)) {
    core::Weight part = tensor_weight(bias, rows.tensor_rows, 1, 1);
    require_f32(part);
    auto copy = std::make_shared<std::vector<std::byte>>(rows.rows * sizeof(float));
    const int64_t run = rows.run > 0 ? rows.run : rows.rows;
    for (int64_t i = 0; i < rows.rows; ++i)
      std::memcpy(copy->data() + i * sizeof(float),
                  part.data + (rows.first + i / run * rows.stride + i % run) * sizeof(float), sizeof(float));
    part.part = rows.part;
    part.cols = rows.rows;
    part.row_bytes = std::ssize(*copy);
    part.data = copy->data();
    part.owned = std::move(copy);
    weights.push_back(add_weight(std::move(part)));
  } else if (has(own_bias)) {
    weights.push_back(vector(own_bias, rows.rows));
  }
  return emit(OpKind::linear, fmt::format("{} {}", tensor, rows.part), {x}, rows.rows, std::move(weights));
}

ValueId Builder::add(ValueId a, ValueId b, const std::string& name, double scale) {
  return emit(OpKind::add, name, {a, b}, width_of(a), {}, core::AddParams{static_cast<float>(scale)});
}

ValueId Builder::gather(ValueId x) { return emit(OpKind::gather, "gather", {x}, width_of(x)); }

void Builder::scale_weight(WeightId id, double scale) {
  core::Weight& norm = program_.weights[id];
  auto scaled = std::make_shared<std::vector<std::byte>>(norm.data, norm.data + norm.total_bytes());
  for (size_t at = 0; at < scaled->size(); at += sizeof(float)) {
    float w;
    std::memcpy(&w, scaled->data() + at, sizeof w);
    w = static_cast<float>(w * scale);
    std::memcpy(scaled->data() + at, &w, sizeof w);
  }
  norm.data = scaled->data();
  norm.owned = std::move(scaled);
}

// A value of 0 means `fallback`.
double Builder::scale_of(std::string_view key, double fallback) const {
  const double scale = hparams_.get_float(key, fallback);
  if (!std::isfinite(scale)) throw_error("{}: {} is {}", file_.path(), hparams_.key(key), scale);
  return scale == 0 ? fallback : scale;
}

// For a draft head, checks only its layer's tensors; for a model, all but those of draft layers.
void Builder::refuse_unused_tensors() const {
  const auto is_of = [&](std::string_view name, int64_t il) { return name.starts_with(fmt::format("blk.{}.", il)); };
  const auto counts = [&](std::string_view name) {
    if (draft_head_) return is_of(name, draft_layer());
    for (int64_t il = hparams_.layers(); il < hparams_.blocks(); ++il)
      if (is_of(name, il)) return false;
    return true;
  };
  for (const gguf::Tensor& tensor : file_.tensors())
    if (!used_tensors_.contains(tensor.name) && counts(tensor.name) && !tensor.name.ends_with(".input_scale"))
      throw_error("{}: tensor {} is not used by {} models: its purpose is not supported yet", file_.path(),
                  core::printable(tensor.name), program_.architecture);
}

core::Program Builder::finish() && {
  while (std::ssize(program_.kv_layers) < shared_.encoded_caches)
    program_.kv_layers.push_back(blocks::encoded_cache(*this, 0));
  if ((keeps_hidden_ || taken_) && program_.hidden < 0) refuse_drafts();
  if (program_.has_token_coordinates && std::ranges::any_of(program_.ops, [](const core::Op& op) {
        const bool by_token = op.kind == OpKind::route && op.weights.size() > 2;
        return by_token || op.kind == OpKind::ngram_embed || op.kind == OpKind::index_choice;
      }))
    throw_error("{}: images and audio for {} models are not supported yet", file_.path(), program_.architecture);
  for (const core::Op& op : program_.ops)
    if (op.kind == OpKind::embed && order_of_weight_.contains(op.weights[0]))
      throw_error("{}: {}: weights of this scheme cannot be an embedding table", file_.path(),
                  program_.weights[op.weights[0]].name);
  hparams_.refuse_ignored();
  refuse_unused_tensors();
  core::validate(program_);
  return std::move(program_);
}

} // namespace ridge::models
