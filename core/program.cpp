// Validation of Programs.
#include "core/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace ridge::core {
namespace {

[[noreturn]] void malformed(const Op& op, const std::string& problem) {
  throw std::logic_error(fmt::format("Program: {} ({}): {}", op.name, name_of(op.kind), problem));
}

void expect(const Op& op, bool ok, const char* problem) {
  if (!ok) malformed(op, problem);
}

struct Operands {
  const Program& program;
  const Op& op;

  const ValueInfo& in(size_t i) const { return program.values.at(op.inputs[i]); }
  const ValueInfo& out(size_t i) const { return program.values.at(op.outputs[i]); }
  const Weight& weight(size_t i) const { return program.weights.at(op.weights[i]); }
  void expect(bool ok, const char* problem) const { core::expect(op, ok, problem); }
};

// shape_NAME checks shapes; check_row has checked number and kinds.

void shape_embed(const Operands& o) {
  const auto& params = std::get<EmbedParams>(o.op.params);
  o.expect(o.program.row_width == 0 || params.of_positions || params.rows == RowUse::none ||
               o.out(0).width <= o.program.row_width,
           "wider than the rows that tokens are given");
  for (size_t i = 0; i < o.op.weights.size(); ++i)
    o.expect(o.weight(i).cols == o.out(0).width, "the table or the bias has another width");
}

void shape_given(const Operands& o) {
  const int64_t first = std::get<GivenParams>(o.op.params).first;
  o.expect(first >= 0 && first + o.out(0).width <= o.program.row_width, "no such part of a row");
}

void shape_ngram_embed(const Operands& o) {
  const auto& params = std::get<NgramParams>(o.op.params);
  o.expect(params.length > 1 && params.length <= kMaxNgram && params.heads_per_length > 0, "params");
  o.expect(o.out(0).width == params.heads() * o.weight(0).cols && !o.out(0).gathered, "the table has another width");
  o.expect(o.out(1).kind == ValueKind::i32 && o.out(1).width == params.heads(), "rows");
  o.expect(o.weight(1).cols == 2 * (params.length + params.heads()), "the hash");
  o.expect(o.program.states.at(params.state).width == params.length - 1, "state");
}

void shape_rms_norm(const Operands& o) {
  const int64_t group = std::get<NormParams>(o.op.params).group;
  o.expect(group > 0 && o.in(0).width % group == 0, "the row does not divide into groups");
  o.expect(o.weight(0).cols == group || o.weight(0).cols == o.in(0).width, "group and weight differ");
  o.expect(o.in(0).width == o.out(0).width, "changes the width");
}

void shape_layer_norm(const Operands& o) {
  shape_rms_norm(o);
  if (o.op.weights.size() > 1) o.expect(o.weight(1).cols == o.weight(0).cols, "the bias has another width");
}

void shape_linear(const Operands& o) {
  o.expect(o.weight(0).cols == o.in(0).width && o.weight(0).rows == o.out(0).width, "shape");
  if (o.op.weights.size() == 2) o.expect(o.weight(1).cols == o.out(0).width, "the bias has another width");
}

void shape_rope(const Operands& o) {
  const auto& params = std::get<RopeParams>(o.op.params);
  const RopeTable& table = o.program.rope_tables.at(params.table);
  o.expect(params.heads * params.head_dim == o.in(0).width && o.in(0).width == o.out(0).width, "shape");
  o.expect(2 * static_cast<int64_t>(table.inverse_frequency.size()) <= params.head_dim, "rotates past the head");
  o.expect(table.long_inverse_frequency.empty() ||
               table.long_inverse_frequency.size() == table.inverse_frequency.size(),
           "rotates fewer or more pairs in long contexts");
  o.expect(table.span > 0, "positions of no span");
  o.expect(table.axes.empty() || table.axes.size() == table.inverse_frequency.size(), "axes of some pairs");
}

void shape_position_scale(const Operands& o) {
  const auto& params = std::get<PositionScaleParams>(o.op.params);
  o.expect(o.in(0).width == o.out(0).width && !o.in(0).gathered, "shape");
  o.expect(params.step > 0 && params.offset >= 0, "step or offset");
}

void shape_kv_store(const Operands& o) {
  const KvLayer& kv = o.program.kv_layers.at(std::get<KvParams>(o.op.params).layer);
  o.expect(!kv.latent, "the cache is one of latent attention");
  o.expect(o.in(0).width == kv.heads * kv.k_dim && o.in(1).width == kv.heads * kv.v_dim, "shape");
}

void shape_attention(const Operands& o) {
  const auto& params = std::get<AttentionParams>(o.op.params);
  const KvLayer& kv = o.program.kv_layers.at(params.layer);
  o.expect(!kv.latent, "the cache is one of latent attention");
  o.expect(params.heads % kv.heads == 0, "query heads are not a multiple of KV heads");
  o.expect(o.in(0).width == params.heads * kv.k_dim && o.out(0).width == params.heads * kv.v_dim, "shape");
  o.expect(params.window >= 0 && params.soft_cap >= 0 && (params.window > 0 || !params.chunked) && params.reach >= 0 &&
               (params.causal || !params.chunked) && (!params.in_blocks || o.program.has_token_coordinates),
           "params");
  const int64_t per_head = params.reach > 0 ? 2 * params.reach + 1 : 1;
  o.expect(params.reach == 0 || !o.op.weights.empty(), "no biases");
  if (!o.op.weights.empty())
    o.expect(o.weight(0).cols == params.heads * per_head, "not one sink or row of biases per head");
}

void shape_sparse_attention(const Operands& o) {
  shape_attention(o);
  const auto& params = std::get<AttentionParams>(o.op.params);
  o.expect(o.in(1).kind == ValueKind::i32, "positions");
  o.expect(params.window == 0 && params.soft_cap == 0 && params.max_bias == 0 && params.causal && params.reach == 0,
           "attention to chosen positions is causal, without windows, soft caps and biases");
}

const KvLayer& latent_layer_of(const Operands& o, int32_t layer) {
  const KvLayer& kv = o.program.kv_layers.at(layer);
  o.expect(kv.latent && kv.heads == 1 && kv.v_dim > 0 && kv.v_dim <= kv.k_dim, "the cache is none of latent attention");
  return kv;
}

// The part of a key beyond its value; if that is empty, the first input is given again.
bool fits_rest(const Operands& o, int64_t width) {
  return width == 0 ? o.op.inputs[1] == o.op.inputs[0] : o.in(1).width == width;
}

void shape_latent_store(const Operands& o) {
  const KvLayer& kv = latent_layer_of(o, std::get<KvParams>(o.op.params).layer);
  o.expect(o.in(0).width == kv.v_dim && fits_rest(o, kv.k_dim - kv.v_dim), "shape");
}

void check_latent_attention(const Operands& o) {
  const auto& params = std::get<AttentionParams>(o.op.params);
  const KvLayer& kv = latent_layer_of(o, params.layer);
  o.expect(o.in(0).width == params.heads * kv.v_dim && fits_rest(o, params.heads * (kv.k_dim - kv.v_dim)) &&
               o.out(0).width == params.heads * kv.v_dim,
           "shape");
  o.expect(params.window >= 0 && !params.chunked && params.soft_cap == 0 && params.causal && params.reach == 0,
           "latent attention is causal, without chunks, soft caps and biases");
  if (!o.op.weights.empty()) o.expect(o.weight(0).cols == params.heads, "not one sink per head");
}

void shape_latent_attention(const Operands& o) { check_latent_attention(o); }

void shape_chosen_attention(const Operands& o) {
  check_latent_attention(o);
  o.expect(std::get<AttentionParams>(o.op.params).window == 0, "chosen positions within a window");
  o.expect(o.in(2).kind == ValueKind::i32, "positions");
}

const KvLayer& index_layer_of(const Operands& o, int32_t layer) {
  const KvLayer& kv = o.program.kv_layers.at(layer);
  o.expect(kv.latent && kv.heads == 1 && kv.v_dim == 0 && kv.k_dim > 0 && kv.span > 0, "the cache is none of an index");
  return kv;
}

void shape_index_store(const Operands& o) {
  o.expect(o.in(0).width == index_layer_of(o, std::get<KvParams>(o.op.params).layer).k_dim, "shape");
}

void shape_index_choice(const Operands& o) {
  const auto& params = std::get<IndexParams>(o.op.params);
  const KvLayer& kv = index_layer_of(o, params.layer);
  o.expect(o.in(0).width == params.heads * kv.k_dim, "shape");
  o.expect(params.unweighted ? o.op.inputs[1] == o.op.inputs[0] : o.in(1).width == params.heads, "weights of heads");
  o.expect(o.out(0).kind == ValueKind::i32 && o.out(0).width >= kv.span, "positions");
  o.expect(params.chooses_positions || !params.tail || o.out(0).width % kv.span == kv.span - 1,
           "no room for the positions that no entry has");
  o.expect(params.tail || !params.chooses_positions, "a choice that fills has the positions that no entry has, too");
}

void shape_mixed_attention(const Operands& o) {
  const auto& params = std::get<MixedParams>(o.op.params);
  const KvLayer& rows = latent_layer_of(o, params.layer);
  const KvLayer& entries = index_layer_of(o, params.entries);
  o.expect(rows.k_dim == rows.v_dim && entries.k_dim == rows.k_dim && params.window > 0, "the caches do not fit");
  o.expect(o.in(0).width == params.heads * rows.k_dim && o.out(0).width == o.in(0).width, "shape");
  o.expect(o.op.inputs[1] == o.op.inputs[0] || (o.in(1).kind == ValueKind::i32 && o.in(1).width % entries.span == 0),
           "positions");
  if (!o.op.weights.empty()) o.expect(o.weight(0).cols == params.heads, "not one sink per head");
}

void shape_hyper_gates(const Operands& o) {
  const auto& params = std::get<HyperParams>(o.op.params);
  const int64_t count = params.count;
  const int64_t matrix = params.iterations > 0 ? count : 0;
  o.expect(count > 0 && count <= kMaxHyperStreams && params.iterations >= 0, "params");
  o.expect(o.in(0).width == (2 + matrix) * count && o.weight(0).cols == (matrix > 0 ? 3 : 2) &&
               o.weight(1).cols == o.in(0).width,
           "shape");
  o.expect(o.out(0).width == count && o.out(1).width == (1 + matrix) * count, "gates");
}

void shape_hyper_join(const Operands& o) {
  const int64_t width = o.in(0).width, count = o.in(1).width / width;
  o.expect(o.in(1).width == count * width && o.out(0).width == count * width, "shape");
  o.expect(count <= kMaxHyperStreams && (o.in(2).width == count || o.in(2).width == (1 + count) * count), "gates");
}

void shape_softmax(const Operands& o) { o.expect(o.in(0).width == o.out(0).width, "changes the width"); }

void shape_fold(const Operands& o) { o.expect(o.in(0).width % o.out(0).width == 0, "parts of different widths"); }

void shape_concat(const Operands& o) { o.expect(o.in(0).width + o.in(1).width == o.out(0).width, "width"); }

void shape_glu(const Operands& o) {
  o.expect(o.in(1).width == o.out(0).width, "changes the width");
  o.expect(o.in(0).width > 0 && o.in(1).width % o.in(0).width == 0, "elements do not divide among the gates");
}

void shape_activate(const Operands& o) {
  o.expect(o.in(0).width == o.out(0).width, "changes the width");
  if (o.op.weights.empty()) return;
  const auto& params = std::get<ActivationParams>(o.op.params);
  o.expect(o.weight(0).cols == o.in(0).width && params.limit == 0 && params.shift == 0, "factors");
}

void shape_clamp(const Operands& o) {
  const auto& params = std::get<ClampParams>(o.op.params);
  o.expect(o.in(0).width == o.out(0).width && params.low <= params.high, "limits or width");
}

void shape_adapter_scale(const Operands& o) {
  const Weight &factors = o.weight(0), &adapters = o.weight(1);
  o.expect(o.in(0).width == o.out(0).width, "changes the width");
  o.expect(factors.cols == adapters.cols && o.in(0).width % factors.cols == 0, "columns");
  for (int64_t i = 0; i < adapters.cols; ++i) {
    int32_t number;
    std::memcpy(&number, adapters.data + 4 * i, sizeof number);
    o.expect(number >= 0 && number < std::ssize(o.program.adapters), "no such adapter");
  }
}

void shape_add(const Operands& o) {
  o.expect(o.in(0).width == o.in(1).width && o.in(0).width == o.out(0).width, "operands differ in width");
}

void shape_permute(const Operands& o) {
  const int64_t group = std::get<PermuteParams>(o.op.params).group;
  o.expect(group > 0 && o.in(0).width % group == 0, "the order");
  o.expect(o.out(0).width == o.in(0).width / group * o.weight(0).cols, "width");
}

void shape_gather(const Operands& o) {
  o.expect(!o.in(0).gathered && o.out(0).gathered && o.in(0).width == o.out(0).width, "shape");
}

void shape_route(const Operands& o) {
  const auto& params = std::get<RouteParams>(o.op.params);
  o.expect(o.in(0).width == params.experts && params.used > 0 && params.used <= params.experts, "expert counts");
  o.expect(params.experts <= kMaxExperts, "more than 1,024 experts");
  o.expect(o.out(0).kind == ValueKind::i32 && o.out(0).width == params.used && o.out(1).width == params.used, "shape");
  o.expect(params.groups > 0 && params.experts % params.groups == 0, "experts do not divide into groups");
  o.expect(params.groups_used > 0 && params.groups_used <= params.groups &&
               params.used <= params.experts / params.groups * params.groups_used,
           "too few experts in the groups used");
  o.expect(params.share_matrix > 0 && params.experts % params.share_matrix == 0,
           "experts do not share matrices evenly");
  o.expect(params.nearness == 0 || (params.by_score && params.gate == Gate::softmax), "near experts by another gate");
  for (size_t i = 0; i < std::min<size_t>(2, o.op.weights.size()); ++i)
    o.expect(o.weight(i).cols == params.experts, "the bias or the scale has another width");
  if (o.op.weights.size() > 2)
    o.expect(o.weight(2).cols == o.program.vocab * params.used && !o.out(0).gathered &&
                 !o.program.has_token_coordinates,
             "not the experts of each token");
}

void shape_expert_linear(const Operands& o) {
  const int64_t used = std::get<ExpertParams>(o.op.params).used;
  o.expect(o.in(0).width == o.weight(0).cols || o.in(0).width == used * o.weight(0).cols, "input width");
  o.expect(o.in(1).kind == ValueKind::i32 && o.in(1).width == used, "expert ids");
  o.expect(o.out(0).width == used * o.weight(0).rows, "output width");
  if (o.op.weights.size() > 1)
    o.expect(o.weight(1).cols == o.weight(0).count * o.weight(0).rows, "the bias has another width");
}

void check_ranks(const Operands& o) {
  const auto& params = std::get<RankParams>(o.op.params);
  o.expect(params.ranks > 0 && params.rank >= 0 && params.rank < params.ranks, "ranks");
  o.expect(params.first >= 0 && params.first + o.in(0).width <= o.out(0).width, "a part outside of the whole");
}

void shape_all_reduce(const Operands& o) {
  check_ranks(o);
  o.expect(o.in(0).width == o.out(0).width, "changes the width");
}

void shape_all_gather(const Operands& o) { check_ranks(o); }

void shape_head_ids(const Operands& o) { o.expect(o.out(0).kind == ValueKind::i32, "ids"); }

void shape_expert_sum(const Operands& o) {
  const int64_t used = std::get<ExpertParams>(o.op.params).used;
  o.expect(used > 0 && o.in(1).width > 0 && o.in(1).width % used == 0, "shares");
  o.expect(o.in(0).width * (o.in(1).width / used) == used * o.out(0).width, "shape");
}

const StateLayer& state_of(const Operands& o, int32_t state) {
  o.expect(!o.in(0).gathered, "state needs every token");
  return o.program.states.at(state);
}

void shape_conv1d(const Operands& o) {
  const auto& params = std::get<ConvParams>(o.op.params);
  const int64_t channels = o.in(0).width;
  o.expect(channels == o.out(0).width, "changes the width");
  o.expect(params.kernel > 1 && o.weight(0).cols == params.kernel && o.weight(0).rows == channels, "taps");
  o.expect(params.ahead >= 0 && params.ahead < params.kernel, "taps ahead");
  if (o.op.weights.size() > 1) o.expect(o.weight(1).cols == channels, "the bias has another width");
  o.expect(state_of(o, params.state).width == (params.kernel - 1) * channels, "state");
}

void shape_pool(const Operands& o) {
  const auto& params = std::get<PoolParams>(o.op.params);
  const int64_t width = o.in(0).width, halves = params.overlaps ? 2 : 1;
  o.expect(params.kernel > 1 && params.kernel % halves == 0, "kernel");
  o.expect(o.in(1).width == width && o.out(0).width * halves == width, "changes the width");
  o.expect(o.weight(0).cols == params.kernel / halves * width, "bias");
  o.expect(state_of(o, params.state).width == 2 * (params.kernel - 1) * width, "state");
}

void shape_delta_rule(const Operands& o) {
  const auto& params = std::get<DeltaParams>(o.op.params);
  o.expect(params.k_heads > 0 && params.v_heads % params.k_heads == 0 && params.dim > 0, "heads");
  const int64_t keys = params.k_heads * params.dim, alphas = o.in(3).width;
  o.expect(params.q_at >= 0 && params.q_at + keys <= o.in(0).width, "q");
  o.expect(params.k_at >= 0 && params.k_at + keys <= o.in(1).width, "k");
  o.expect(params.v_at >= 0 && params.v_at + params.v_heads * params.dim <= o.in(2).width, "v");
  o.expect(alphas == params.v_heads || alphas == params.v_heads * params.dim, "alpha");
  o.expect(o.in(4).width == params.v_heads && params.least <= 0, "beta or the least factor");
  o.expect(o.weight(0).cols == params.v_heads && o.weight(1).cols == alphas, "weights");
  o.expect(o.out(0).width == params.v_heads * params.dim, "output width");
  o.expect(state_of(o, params.state).width == params.v_heads * params.dim * params.dim, "state");
}

void shape_scan(const Operands& o) {
  const auto& params = std::get<ScanParams>(o.op.params);
  const int64_t width = params.heads * params.head_dim, group_width = params.groups * params.states;
  o.expect(params.groups > 0 && params.heads % params.groups == 0 && params.head_dim > 0 && params.states > 0, "heads");
  o.expect(params.x_at >= 0 && params.x_at + width <= o.in(0).width, "x");
  o.expect(params.b_at >= 0 && params.b_at + group_width <= o.in(1).width, "b");
  o.expect(params.c_at >= 0 && params.c_at + group_width <= o.in(2).width, "c");
  o.expect(o.in(3).width == params.heads && o.out(0).width == width, "dt or output width");
  o.expect(o.weight(0).cols == params.heads || o.weight(0).cols == params.heads * params.states, "a");
  o.expect(o.weight(1).cols == params.heads && o.weight(2).cols == params.heads, "d or bias of dt");
  o.expect(state_of(o, params.state).width == width * params.states, "state");
}

void shape_wkv(const Operands& o) {
  const auto& params = std::get<WkvParams>(o.op.params);
  const int64_t width = params.heads * params.dim;
  o.expect(params.heads > 0 && params.dim > 0 && params.dim <= kMaxWkvDim, "heads");
  for (size_t i = 0; i < 4; ++i) o.expect(o.in(i).width == width, "input width");
  o.expect(o.weight(0).cols == width && o.weight(1).cols == width && o.out(0).width == width, "shape");
  o.expect(state_of(o, params.state).width == width * params.dim, "state");
}

void shape_wkv7(const Operands& o) {
  const auto& params = std::get<WkvParams>(o.op.params);
  const int64_t width = params.heads * params.dim;
  o.expect(params.heads > 0 && params.dim > 0 && params.dim <= kMaxWkvDim, "heads");
  for (size_t i = 0; i < 6; ++i) o.expect(o.in(i).width == width, "input width");
  o.expect(o.out(0).width == width && state_of(o, params.state).width == width * params.dim, "shape");
}

using CheckShape = void (*)(const Operands&);
constexpr CheckShape kCheckShape[] = {
#define RIDGE_OP(name, ...) shape_##name,
#include "core/ops.def"
#undef RIDGE_OP
};

bool plays(const Weight& weight, WeightRole role) {
  if ((weight.type == kOrderType) != (role == WeightRole::order)) return false;
  switch (role) {
  case WeightRole::matrix: return weight.count == 1;
  case WeightRole::experts: return true;
  case WeightRole::taps: return weight.count == 1 && weight.type == kFloatType && weight.run_rows == 0;
  case WeightRole::vector:
  case WeightRole::order: return weight.count == 1 && weight.rows == 1;
  }
  return false;
}

// Operands and params as in ops.def.
void check_row(const Program& program, const Op& op) {
  const OpInfo& info = info_of(op.kind);
  expect(op, op.inputs.size() == info.inputs, "wrong number of inputs");
  expect(op, op.outputs.size() == info.outputs, "wrong number of outputs");
  expect(op, op.weights.size() >= info.required_weights && op.weights.size() <= info.weights.count,
         "wrong number of weights");
  for (size_t i = 0; i < op.weights.size(); ++i) {
    const Weight& weight = program.weights.at(op.weights[i]);
    expect(op, weight.run_rows == 0 || weight.rows % weight.run_rows == 0, "runs of rows do not make whole matrices");
    if (!plays(weight, info.weights.roles[i])) malformed(op, "takes no weight such as " + weight.name);
  }
  expect(op, op.params.index() == info.params, "params of another op");
}

void check_order(const Program& program, const Op& op, std::vector<bool>& written) {
  for (ValueId id : op.inputs)
    if (!written.at(id)) malformed(op, "reads " + program.values[id].name + " before it is written");
  for (ValueId id : op.outputs) {
    if (written.at(id)) malformed(op, "writes " + program.values[id].name + " twice");
    written[id] = true;
  }
}

void check_rows(const Operands& o) {
  if (o.op.kind == OpKind::gather) return;
  for (size_t i = 0; i < o.op.inputs.size(); ++i)
    for (size_t j = 0; j < o.op.outputs.size(); ++j)
      o.expect(o.in(i).gathered == o.out(j).gathered, "mixes row counts");
}

void check_result(const Program& program, const std::vector<bool>& written) {
  if (program.output >= 0) {
    if (program.embeds && !program.values.at(program.output).gathered)
      throw std::logic_error("Program: embeddings of tokens, which are not wanted");
    if (!written.at(program.output)) throw std::logic_error("Program: its output is not written");
  } else if (program.logits < 0 || !written.at(program.logits) || program.choices() > program.vocab ||
             (program.choices() < program.vocab && program.input < 0)) {
    throw std::logic_error("Program: no logits of the vocabulary's width");
  }
  if (program.hidden >= 0 && (!written.at(program.hidden) || program.values[program.hidden].kind != ValueKind::f32))
    throw std::logic_error("Program: no hidden rows");
}

} // namespace

void validate(const Program& program) {
  std::vector<bool> written(program.values.size(), false);
  if (program.input >= 0) written.at(program.input) = true;
  for (const Op& op : program.ops) {
    check_row(program, op);
    check_order(program, op, written);
    check_rows({program, op});
    kCheckShape[static_cast<size_t>(op.kind)]({program, op});
  }
  check_result(program, written);
}

bool sees_ahead(const Program& program) {
  return std::ranges::any_of(program.ops, [](const Op& op) {
    const auto* attention = std::get_if<AttentionParams>(&op.params);
    const auto* conv = std::get_if<ConvParams>(&op.params);
    return (attention && !attention->causal) || (conv && conv->ahead > 0);
  });
}

} // namespace ridge::core
