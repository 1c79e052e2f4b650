#include "models/blocks.h"

#include "core/error.h"
#include "models/rope.h"

#include <cmath>
#include <cstring>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

Builder::Builder(const gguf::File& file) : file_(file) {
  program_.architecture = file.get_string("general.architecture");
  read_hparams();
}

std::string Builder::key(const char* name) const { return program_.architecture + "." + name; }
int64_t Builder::get_int(const char* name) const { return file_.get_int(key(name)); }
int64_t Builder::get_int(const char* name, int64_t absent) const { return file_.get_int(key(name), absent); }
double Builder::get_float(const char* name, double absent) const { return file_.get_float(key(name), absent); }
std::string_view Builder::get_string(const char* name, std::string_view absent) const {
  return file_.get_string(key(name), absent);
}

void Builder::check_range(const char* what, int64_t found, int64_t low, int64_t high) const {
  if (found < low || found > high)
    throw_error("{}: {} is {}, expected {} to {}: the file is damaged or not a {} model", file_.path(), key(what),
                found, low, high, program_.architecture);
}

// A hyperparameter that is one number for all layers, or an array with one number for each.
std::vector<int64_t> Builder::per_layer(const char* name, int64_t absent) const {
  const gguf::Value* found = file_.find(key(name));
  if (found && found->is_array()) {
    const auto values = found->as_ints();
    if (!values || std::ssize(*values) < hparams_.layers)
      throw_error("{}: {}: expected {} integers, one per layer", file_.path(), key(name), hparams_.layers);
    return {values->begin(), values->begin() + hparams_.layers};
  }
  return std::vector<int64_t>(hparams_.layers, absent < 0 ? get_int(name) : get_int(name, absent));
}

void Builder::read_hparams() {
  constexpr int64_t kMaxWidth = 1 << 20, kMaxLayers = 4096, kMaxHeads = 4096, kMaxHeadDim = 4096, kMaxExperts = 4096;
  Hparams& h = hparams_;
  h.layers = get_int("block_count");
  check_range("block_count", h.layers, 1, kMaxLayers);
  h.width = get_int("embedding_length");
  check_range("embedding_length", h.width, 1, kMaxWidth);
  h.context = get_int("context_length", 2048);
  check_range("context_length", h.context, 1, int64_t{1} << 31);
  program_.trained_context = h.context;

  h.heads = per_layer("attention.head_count", -1);
  h.kv_heads = file_.find(key("attention.head_count_kv")) ? per_layer("attention.head_count_kv", -1) : h.heads;
  for (int64_t il = 0; il < h.layers; ++il) {
    check_range("attention.head_count", h.heads[il], 1, kMaxHeads);
    check_range("attention.head_count_kv", h.kv_heads[il], 1, h.heads[il]);
    if (h.heads[il] % h.kv_heads[il] != 0)
      throw_error("{}: layer {}: {} attention heads cannot share {} key-value heads evenly", file_.path(), il,
                  h.heads[il], h.kv_heads[il]);
  }
  h.k_dim = get_int("attention.key_length", h.width / h.heads[0]);
  check_range("attention.key_length", h.k_dim, 1, kMaxHeadDim);
  h.v_dim = get_int("attention.value_length", h.width / h.heads[0]);
  check_range("attention.value_length", h.v_dim, 1, kMaxHeadDim);
  h.rope_dims = get_int("rope.dimension_count", h.k_dim);
  check_range("rope.dimension_count", h.rope_dims, 2, h.k_dim);
  if (h.rope_dims % 2 != 0) throw_error("{}: {} is odd ({})", file_.path(), key("rope.dimension_count"), h.rope_dims);

  const double epsilon = get_float("attention.layer_norm_rms_epsilon", 1e-5);
  if (!(epsilon >= 0 && epsilon < 1))
    throw_error("{}: {} is {}, expected 0 to 1", file_.path(), key("attention.layer_norm_rms_epsilon"), epsilon);
  h.norm_epsilon = static_cast<float>(epsilon);

  h.experts = get_int("expert_count", 0);
  check_range("expert_count", h.experts, 0, kMaxExperts);
  h.experts_used = get_int("expert_used_count", 0);
  if (h.experts > 0) check_range("expert_used_count", h.experts_used, 1, h.experts);
  h.ffn_width = per_layer("feed_forward_length", h.experts > 0 ? 0 : -1);
  if (h.experts == 0)
    for (int64_t width : h.ffn_width) check_range("feed_forward_length", width, 1, 16 * kMaxWidth);
}

WeightId Builder::weight(const std::string& name, int64_t cols, int64_t rows, int64_t count) {
  for (size_t i = 0; i < program_.weights.size(); ++i) // tied weights are used twice
    if (program_.weights[i].name == name) return static_cast<WeightId>(i);
  if (const auto planar = PlanarWeight::find(file_, name)) return planar_weight(*planar, cols, rows, count);
  const gguf::Tensor* tensor = file_.find_tensor(name);
  if (!tensor)
    throw_error("{}: tensor {} is missing: the file is incomplete or not a {} model", file_.path(), name,
                program_.architecture);
  const auto& dims = tensor->dims;
  if (dims[0] != cols || dims[1] != rows || dims[2] != count || dims[3] != 1)
    throw_error("{}: tensor {} has shape [{}, {}, {}, {}], expected [{}, {}, {}, 1]", file_.path(), name, dims[0],
                dims[1], dims[2], dims[3], cols, rows, count);
  const auto type = static_cast<uint32_t>(tensor->type);
  const quant::FormatInfo* format = quant::find_format(type);
  if (!format) throw_error("{}: tensor {} has type id {}, which is no weight format", file_.path(), name, type);
  program_.weights.push_back({name, type, cols, rows, count, format->row_bytes(cols), tensor->data.data()});
  return static_cast<WeightId>(program_.weights.size() - 1);
}

// Weights of a scheme that GGUF has no type for are put together in memory, in the form that executors know.
WeightId Builder::planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count) {
  if (planar.cols() != cols || planar.rows() != rows || planar.count() != count)
    throw_error("{}: weight {} has shape [{}, {}, {}], expected [{}, {}, {}]", file_.path(), planar.name(),
                planar.cols(), planar.rows(), planar.count(), cols, rows, count);
  const quant::FormatInfo& format = quant::format(planar.type());
  const int64_t row_bytes = format.row_bytes(planar.cols());
  auto data = std::make_shared<std::vector<std::byte>>(row_bytes * rows * count);
  planar.assemble(0, rows * count, data->data());
  const auto id = static_cast<WeightId>(program_.weights.size());
  program_.weights.push_back(
      {planar.name(), static_cast<uint32_t>(planar.type()), planar.cols(), rows, count, row_bytes, data->data(), data});
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
  for (const core::Op& op : program_.ops) { // matrices with a common input often have a common order
    if (op.kind != OpKind::permute || op.inputs[0] != x) continue;
    const core::Weight& other = program_.weights[op.weights[0]];
    if (other.cols == order.cols && std::memcmp(other.data, order.data, order.total_bytes()) == 0) return op.outputs[0];
  }
  return emit(OpKind::permute, order.name, {x}, program_.values[x].width / group * order.cols, {order_id},
              core::PermuteParams{group});
}

// Norm weights and biases: executors read them as f32 in place.
WeightId Builder::vector(const std::string& name, int64_t width) {
  const WeightId id = weight(name, width, 1);
  if (program_.weights[id].type != static_cast<uint32_t>(quant::Type::F32))
    throw_error("{}: tensor {} has type {}, expected F32", file_.path(), name,
                quant::find_format(program_.weights[id].type)->name);
  return id;
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

ValueId Builder::embed() {
  if (const gguf::Tensor* table = file_.find_tensor("token_embd.weight")) program_.vocab = table->dims[1];
  return emit(OpKind::embed, "token_embd", {}, hparams_.width,
              {weight("token_embd.weight", hparams_.width, program_.vocab)});
}

ValueId Builder::rms_norm(ValueId x, const std::string& tensor) {
  const int64_t width = program_.values[x].width;
  const WeightId w = vector(tensor + ".weight", width);
  return emit(OpKind::rms_norm, tensor, {x}, width, {w}, core::NormParams{hparams_.norm_epsilon, width});
}

ValueId Builder::linear(ValueId x, const std::string& tensor, int64_t rows) {
  std::vector<WeightId> weights = {weight(tensor + ".weight", program_.values[x].width, rows)};
  x = in_order_of(weights[0], x);
  if (file_.find_tensor(tensor + ".bias")) weights.push_back(vector(tensor + ".bias", rows));
  return emit(OpKind::linear, tensor, {x}, rows, std::move(weights));
}

ValueId Builder::add(ValueId a, ValueId b, const std::string& name) {
  return emit(OpKind::add, name, {a, b}, program_.values[a].width);
}

ValueId Builder::gather(ValueId x) { return emit(OpKind::gather, "gather", {x}, program_.values[x].width); }

int32_t Builder::rope_table(core::RopeStyle style) {
  if (rope_table_ < 0) {
    program_.rope_tables.push_back(make_rope_table(file_, program_.architecture, hparams_.rope_dims, style));
    rope_table_ = static_cast<int32_t>(program_.rope_tables.size() - 1);
  }
  return rope_table_;
}

ValueId Builder::attention(ValueId x, int64_t il, const AttentionStyle& style) {
  const std::string blk = "blk." + std::to_string(il) + ".";
  const int64_t heads = hparams_.heads[il], kv_heads = hparams_.kv_heads[il];
  const int64_t k_dim = hparams_.k_dim, v_dim = hparams_.v_dim;
  const auto head_norm = [&](ValueId v, const std::string& tensor) {
    if (!style.qk_norm) return v;
    const WeightId w = vector(tensor + ".weight", k_dim);
    return emit(OpKind::rms_norm, tensor, {v}, program_.values[v].width, {w},
                core::NormParams{hparams_.norm_epsilon, k_dim});
  };
  const auto rope = [&](ValueId v, int64_t n, const char* name) {
    return emit(OpKind::rope, blk + name, {v}, n * k_dim, {}, core::RopeParams{rope_table(style.rope), n, k_dim});
  };
  ValueId q = linear(x, blk + "attn_q", heads * k_dim);
  ValueId k = linear(x, blk + "attn_k", kv_heads * k_dim);
  const ValueId v = linear(x, blk + "attn_v", kv_heads * v_dim);
  q = rope(head_norm(q, blk + "attn_q_norm"), heads, "q_rope");
  k = rope(head_norm(k, blk + "attn_k_norm"), kv_heads, "k_rope");

  const auto layer = static_cast<int32_t>(program_.kv_layers.size());
  program_.kv_layers.push_back({kv_heads, k_dim, v_dim});
  program_.ops.push_back({OpKind::kv_store, layer_, blk + "kv_store", {k, v}, {}, {}, core::KvParams{layer}});
  double scale = get_float("attention.scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(k_dim));
  const ValueId attended = emit(OpKind::attention, blk + "attention", {q}, heads * v_dim, {},
                                core::AttentionParams{layer, heads, static_cast<float>(scale)});
  return linear(attended, blk + "attn_output", hparams_.width);
}

ValueId Builder::ffn(ValueId x, int64_t il) {
  const std::string blk = "blk." + std::to_string(il) + ".";
  const int64_t width = hparams_.ffn_width[il];
  const ValueId gate = linear(x, blk + "ffn_gate", width);
  const ValueId up = linear(x, blk + "ffn_up", width);
  return linear(emit(OpKind::swiglu, blk + "swiglu", {gate, up}, width), blk + "ffn_down", hparams_.width);
}

ValueId Builder::experts(ValueId x, int64_t il, int64_t expert_width) {
  const std::string blk = "blk." + std::to_string(il) + ".";
  const int64_t used = hparams_.experts_used;
  if (file_.find_tensor(blk + "ffn_gate.0.weight"))
    throw_error("{}: has one tensor per expert ({}ffn_gate.0.weight), a layout that was given up in 2024: convert the "
                "model again",
                file_.path(), blk);
  const ValueId router = linear(x, blk + "ffn_gate_inp", hparams_.experts);
  const ValueId ids = value(blk + "expert_ids", used, gathered(x), core::ValueKind::i32);
  const ValueId shares = value(blk + "expert_shares", used, gathered(x));
  program_.ops.push_back({OpKind::route,
                          layer_,
                          blk + "route",
                          {router},
                          {ids, shares},
                          {},
                          core::RouteParams{hparams_.experts, used, true}});
  const auto expert_linear = [&](ValueId in, const char* name, int64_t cols, int64_t rows) {
    const WeightId id = weight(blk + name + ".weight", cols, rows, hparams_.experts);
    return emit(OpKind::expert_linear, blk + name, {in_order_of(id, in), ids}, used * rows, {id},
                core::ExpertParams{used});
  };
  const ValueId gate = expert_linear(x, "ffn_gate_exps", hparams_.width, expert_width);
  const ValueId up = expert_linear(x, "ffn_up_exps", hparams_.width, expert_width);
  const ValueId hidden = emit(OpKind::swiglu, blk + "swiglu", {gate, up}, used * expert_width);
  const ValueId down = expert_linear(hidden, "ffn_down_exps", expert_width, hparams_.width);
  return emit(OpKind::expert_sum, blk + "expert_sum", {down, shares}, hparams_.width, {}, core::ExpertParams{used});
}

void Builder::logits(ValueId x) {
  x = rms_norm(x, "output_norm");
  program_.logits = file_.find_tensor("output.weight") || PlanarWeight::find(file_, "output.weight")
                        ? linear(x, "output", program_.vocab)
                        : emit(OpKind::linear, "output (tied)", {x}, program_.vocab,
                               {weight("token_embd.weight", hparams_.width, program_.vocab)});
}

core::Program Builder::finish() && {
  for (const core::Op& op : program_.ops)
    if (op.kind == OpKind::embed && order_of_weight_.contains(op.weights[0]))
      throw_error("{}: {}: weights of this scheme cannot be a table", file_.path(),
                  program_.weights[op.weights[0]].name);
  core::validate(program_);
  return std::move(program_);
}

} // namespace ridge::models
