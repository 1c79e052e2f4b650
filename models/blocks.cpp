#include "models/blocks.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/rope.h"

#include <cmath>
#include <cstring>
#include <span>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

namespace {

std::string block(int64_t il) { return fmt::format("blk.{}.", il); }

} // namespace

Builder::Builder(const gguf::File& file) : file_(file), hparams_(file) {
  program_.architecture = hparams_.architecture();
  program_.trained_context = hparams_.context();
}

std::string Builder::begin_layer(int64_t il) {
  layer_ = static_cast<int32_t>(il);
  return block(il);
}

WeightId Builder::weight(const std::string& name, int64_t cols, int64_t rows, int64_t count) {
  for (size_t i = 0; i < program_.weights.size(); ++i) // a tied matrix is used twice
    if (program_.weights[i].name == name) return static_cast<WeightId>(i);
  if (const auto planar = PlanarWeight::find(file_, name)) return planar_weight(*planar, cols, rows, count);
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
  if (!format) throw_error("{}: tensor {} has type id {}, which is no weight format", file_.path(), name, type);
  program_.weights.push_back({name, type, cols, rows, count, format->row_bytes(cols), tensor->data.data()});
  return static_cast<WeightId>(program_.weights.size() - 1);
}

// Weights of a scheme that GGUF has no type for are assembled in memory, in a format that executors know.
WeightId Builder::planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count) {
  for (const gguf::Tensor* tensor : planar.tensors()) used_tensors_.emplace(tensor->name);
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
  for (const core::Op& op : program_.ops) { // matrices that share an input often share its order
    if (op.kind != OpKind::permute || op.inputs[0] != x) continue;
    const core::Weight& other = program_.weights[op.weights[0]];
    if (other.cols == order.cols && std::memcmp(other.data, order.data, order.total_bytes()) == 0) return op.outputs[0];
  }
  return emit(OpKind::permute, order.name, {x}, width_of(x) / group * order.cols, {order_id},
              core::PermuteParams{group});
}

// A norm's weights or a bias. Executors read them in place, as f32.
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
  const int64_t width = hparams_.width();
  if (const gguf::Tensor* table = file_.find_tensor("token_embd.weight")) program_.vocab = table->dims[1];
  return emit(OpKind::embed, "token_embd", {}, width, {weight("token_embd.weight", width, program_.vocab)});
}

ValueId Builder::rms_norm(ValueId x, const std::string& tensor) { return group_norm(x, tensor, width_of(x)); }

ValueId Builder::group_norm(ValueId x, const std::string& tensor, int64_t group) {
  const WeightId w = vector(tensor + ".weight", group);
  return emit(OpKind::rms_norm, tensor, {x}, width_of(x), {w}, core::NormParams{hparams_.norm_epsilon(), group});
}

ValueId Builder::linear(ValueId x, const std::string& tensor, int64_t rows) {
  std::vector<WeightId> weights = {weight(tensor + ".weight", width_of(x), rows)};
  x = in_order_of(weights[0], x);
  if (has(tensor + ".bias")) weights.push_back(vector(tensor + ".bias", rows));
  return emit(OpKind::linear, tensor, {x}, rows, std::move(weights));
}

ValueId Builder::add(ValueId a, ValueId b, const std::string& name) {
  return emit(OpKind::add, name, {a, b}, width_of(a));
}

ValueId Builder::gather(ValueId x) { return emit(OpKind::gather, "gather", {x}, width_of(x)); }

ValueId Builder::rope(ValueId x, const std::string& name, const AttentionSpec& spec) {
  if (spec.rope == Rope::none) return x;
  const auto style = spec.rope == Rope::adjacent ? core::RopeStyle::adjacent : core::RopeStyle::split;
  const int32_t table = rope_table(style, *spec.rope_dims);
  return emit(OpKind::rope, name, {x}, width_of(x), {},
              core::RopeParams{table, width_of(x) / *spec.k_dim, *spec.k_dim});
}

int32_t Builder::rope_table(core::RopeStyle style, int64_t dims) {
  const auto [at, is_new] = rope_tables_.try_emplace({style, dims}, static_cast<int32_t>(program_.rope_tables.size()));
  if (is_new) {
    program_.rope_tables.push_back(make_rope_table(file_, program_.architecture, dims, style));
    skip("rope_freqs.weight"); // it is in the table
  }
  return at->second;
}

// The spec with every field set. Fields that it leaves open come from the file. Throws Error for what the ops cannot
// do.
AttentionSpec Builder::resolved(AttentionSpec spec, int64_t il) const {
  const Hparams& h = hparams_;
  if (!spec.heads) spec.heads = h.heads(il);
  if (!spec.kv_heads) spec.kv_heads = h.kv_heads(il);
  if (!spec.k_dim) spec.k_dim = h.k_dim(il);
  if (!spec.v_dim) spec.v_dim = h.v_dim(il);
  if (!spec.rope_dims && spec.rope != Rope::none) spec.rope_dims = h.rope_dims(*spec.k_dim);
  if (!spec.scale) spec.scale = h.get_float("attention.scale", 0);
  if (*spec.scale == 0) spec.scale = 1 / std::sqrt(static_cast<double>(*spec.k_dim));

  if (!spec.causal.value_or(h.get_bool("attention.causal", true)))
    h.refuse("attention.causal", "false", "attention to later tokens is");
  const int64_t window = spec.window.value_or(h.layer_int("attention.sliding_window", il, 0));
  if (window != 0 && window < h.context()) // a longer one makes no difference
    h.refuse("attention.sliding_window", std::to_string(window), "sliding windows are");
  if (const double cap = spec.soft_cap.value_or(h.get_float("attn_logit_softcapping", 0)); cap != 0)
    h.refuse("attn_logit_softcapping", fmt::format("{}", cap), "soft caps of attention's scores are");
  if (spec.sinks) throw_error("{}: {}: attention sinks are not supported yet", file_.path(), program_.architecture);
  return spec;
}

ValueId Builder::attention(ValueId x, int64_t il, const AttentionSpec& wanted) {
  const std::string blk = block(il);
  const AttentionSpec spec = resolved(wanted, il);
  const int64_t heads = *spec.heads, kv_heads = *spec.kv_heads, k_dim = *spec.k_dim, v_dim = *spec.v_dim;
  ValueId q = linear(x, blk + "attn_q", heads * k_dim);
  ValueId k = linear(x, blk + "attn_k", kv_heads * k_dim);
  const ValueId v = linear(x, blk + "attn_v", kv_heads * v_dim);
  if (spec.qk_norm) q = group_norm(q, blk + "attn_q_norm", k_dim);
  q = rope(q, blk + "q_rope", spec);
  if (spec.qk_norm) k = group_norm(k, blk + "attn_k_norm", k_dim);
  k = rope(k, blk + "k_rope", spec);

  const auto layer = static_cast<int32_t>(program_.kv_layers.size());
  program_.kv_layers.push_back({kv_heads, k_dim, v_dim});
  program_.ops.push_back({OpKind::kv_store, layer_, blk + "kv_store", {k, v}, {}, {}, core::KvParams{layer}});
  const ValueId attended = emit(OpKind::attention, blk + "attention", {q}, heads * v_dim, {},
                                core::AttentionParams{layer, heads, static_cast<float>(*spec.scale)});
  return linear(attended, blk + "attn_output", hparams_.width());
}

// The hidden layer of a gated feed-forward part.
ValueId Builder::activate(ValueId gate, ValueId up, const std::string& name, const ActivationSpec& spec) {
  if (spec.kind != Activation::silu || !spec.gated || spec.clamp != 0)
    throw_error("{}: {}: activations other than gated SiLU are not supported yet", file_.path(), program_.architecture);
  return emit(OpKind::swiglu, name, {gate, up}, width_of(gate));
}

ValueId Builder::ffn(ValueId x, int64_t il, const ActivationSpec& activation) {
  const std::string blk = block(il);
  const int64_t width = hparams_.ffn_width(il);
  const ValueId gate = linear(x, blk + "ffn_gate", width);
  const ValueId up = linear(x, blk + "ffn_up", width);
  return linear(activate(gate, up, blk + "swiglu", activation), blk + "ffn_down", hparams_.width());
}

// The same for routing.
RoutingSpec Builder::resolved(RoutingSpec spec, int64_t il) const {
  const Hparams& h = hparams_;
  if (!spec.experts) spec.experts = h.experts();
  if (!spec.used) spec.used = h.experts_used();
  if (!spec.width) spec.width = h.expert_width(il);
  if (!spec.normalize) spec.normalize = h.get_bool("expert_weights_norm", true);

  const int64_t gate = spec.gate ? static_cast<int64_t>(*spec.gate) : h.get_int("expert_gating_func", 0);
  if (gate != 0 && gate != static_cast<int64_t>(Gate::softmax))
    h.refuse("expert_gating_func", std::to_string(gate), "gates other than softmax are");
  if (const double scale = spec.scale.value_or(h.get_float("expert_weights_scale", 0)); scale != 0 && scale != 1)
    h.refuse("expert_weights_scale", fmt::format("{}", scale), "a scale of the experts' shares is");
  if (const int64_t groups = spec.groups.value_or(h.get_int("expert_group_count", 0)); groups > 1)
    h.refuse("expert_group_count", std::to_string(groups), "expert groups are");
  if (spec.selection_bias)
    throw_error("{}: {}: a bias for the choice of experts is not supported yet", file_.path(), program_.architecture);
  return spec;
}

ValueId Builder::experts(ValueId x, int64_t il, const RoutingSpec& wanted, const ActivationSpec& activation) {
  const std::string blk = block(il);
  if (has(blk + "ffn_gate.0.weight"))
    throw_error("{}: has one tensor per expert ({}ffn_gate.0.weight), a layout that was given up in 2024: convert the "
                "model again",
                file_.path(), blk);
  const RoutingSpec spec = resolved(wanted, il);
  const int64_t used = *spec.used, width = hparams_.width();
  const ValueId router = linear(x, blk + "ffn_gate_inp", *spec.experts);
  const ValueId ids = value(blk + "expert_ids", used, gathered(x), core::ValueKind::i32);
  const ValueId shares = value(blk + "expert_shares", used, gathered(x));
  program_.ops.push_back({OpKind::route,
                          layer_,
                          blk + "route",
                          {router},
                          {ids, shares},
                          {},
                          core::RouteParams{*spec.experts, used, *spec.normalize}});
  const auto expert_linear = [&](ValueId in, const char* name, int64_t cols, int64_t rows) {
    const WeightId id = weight(blk + name + ".weight", cols, rows, *spec.experts);
    return emit(OpKind::expert_linear, blk + name, {in_order_of(id, in), ids}, used * rows, {id},
                core::ExpertParams{used});
  };
  const ValueId gate = expert_linear(x, "ffn_gate_exps", width, *spec.width);
  const ValueId up = expert_linear(x, "ffn_up_exps", width, *spec.width);
  const ValueId hidden = activate(gate, up, blk + "swiglu", activation);
  const ValueId down = expert_linear(hidden, "ffn_down_exps", *spec.width, width);
  return emit(OpKind::expert_sum, blk + "expert_sum", {down, shares}, width, {}, core::ExpertParams{used});
}

void Builder::logits(ValueId x) {
  layer_ = -1;
  x = rms_norm(x, "output_norm");
  program_.logits = has("output.weight") || PlanarWeight::find(file_, "output.weight")
                        ? linear(x, "output", program_.vocab)
                        : emit(OpKind::linear, "output (tied)", {x}, program_.vocab,
                               {weight("token_embd.weight", hparams_.width(), program_.vocab)});
}

void Builder::transformer(const AttentionSpec& spec, const Ffn& ffn) {
  ValueId x = embed();
  const int64_t layers = hparams_.layers();
  for (int64_t il = 0; il < layers; ++il) {
    const std::string blk = begin_layer(il);
    const ValueId attended = attention(rms_norm(x, blk + "attn_norm"), il, spec);
    x = add(x, attended, blk + "attn_add");
    if (il + 1 == layers) x = gather(x); // the last feed-forward only for tokens whose logits are wanted
    x = add(x, ffn(rms_norm(x, blk + "ffn_norm"), il), blk + "ffn_add");
  }
  logits(x);
}

void Builder::refuse_unused_tensors() const {
  for (const gguf::Tensor& tensor : file_.tensors())
    if (!used_tensors_.contains(tensor.name) &&
        !tensor.name.ends_with(".input_scale")) // how activations were quantized
      throw_error("{}: tensor {} has no place in a {} model: what it is for is not supported yet", file_.path(),
                  core::printable(tensor.name), program_.architecture);
}

core::Program Builder::finish() && {
  for (const core::Op& op : program_.ops)
    if (op.kind == OpKind::embed && order_of_weight_.contains(op.weights[0]))
      throw_error("{}: {}: weights of this scheme cannot be a table", file_.path(),
                  program_.weights[op.weights[0]].name);
  hparams_.refuse_ignored();
  refuse_unused_tensors();
  core::validate(program_);
  return std::move(program_);
}

} // namespace ridge::models
