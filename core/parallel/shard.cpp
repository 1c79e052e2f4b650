#include "core/parallel/shard.h"

#include "core/parallel/pieces.h"
#include "core/parallel/shares.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace ridge::core {
namespace {

class Sharder {
 public:
  Sharder(const Program& whole, int rank, int ranks, const BlockWeights& block_weights, bool sizes_only)
      : whole_(whole), rank_(rank), ranks_(ranks), block_weights_(block_weights), copies_(!sizes_only),
        shares_(whole, ranks, block_weights) {}

  Shard run();

 private:
  Pieces pieces(int64_t units, const Sections& sections) const;
  Pieces pieces(const ValueForm& part, int64_t of) const;
  int64_t own_width(ValueId id, const ValueForm& form) const;
  int64_t own_place(const ValueForm& form, int64_t place) const;
  Program& program() { return shard_.program; }
  ValueId mapped(ValueId id) const { return id < 0 ? id : now_[id]; }

  void share_caches();
  void add_exchange(OpKind kind, size_t origin, ValueId id, int64_t first);
  void add_op(size_t index);
  void add_joined_norm(size_t index);
  bool passes_term(const Op& op, const Shares::OpForms& forms, ValueId& term) const;
  OpParams params_of(const Op& op, const Shares::OpForms& forms) const;
  std::vector<WeightId> weights_of(const Op& op, const Shares::OpForms& forms);

  void share_heads(ScanParams& params, const Shares::OpForms& forms) const;
  enum class Cut : uint8_t { none, rows, taps, columns, matrices };
  WeightId cut(WeightId id, Cut how, const Pieces& pieces = {});
  Weight cut_weight(const Weight& whole, Cut how, const Pieces& pieces) const;

  const Program& whole_;
  const int rank_, ranks_;
  const BlockWeights& block_weights_;
  const bool copies_;
  const Shares shares_;
  Shard shard_;
  std::vector<ValueId> now_;    // by value of the whole: this rank's value
  std::vector<size_t> writers_; // by value of the whole: its op
  std::map<std::tuple<WeightId, Cut, Pieces>, WeightId> cut_weights_;
};

Shard Sharder::run() {
  Program& p = program();
  p = whole_;
  p.ops.clear();
  p.weights.clear();
  writers_.resize(whole_.values.size());
  for (size_t i = 0; i < whole_.values.size(); ++i) now_.push_back(static_cast<ValueId>(i));
  share_caches();
  for (size_t i = 0; i < whole_.ops.size(); ++i) add_op(i);
  for (const ValueId id : std::set{whole_.logits, whole_.output, whole_.hidden}) {
    if (id < 0) continue;
    const ValueForm form = shares_.final_form(id);
    if (form.form == Form::term) add_exchange(OpKind::all_reduce, writers_[id], id, 0);
    if (form.form == Form::part)
      add_exchange(OpKind::all_gather, writers_[id], id, pieces(form, whole_.values[id].width)[0].first);
  }
  p.logits = mapped(whole_.logits);
  p.output = mapped(whole_.output);
  p.hidden = mapped(whole_.hidden);
  validate(p);
  return std::move(shard_);
}

// This rank's elements of sections that consist of `units`.
Pieces Sharder::pieces(int64_t units, const Sections& sections) const {
  const int64_t first_unit = units * rank_ / ranks_, end_unit = units * (rank_ + 1) / ranks_;
  Pieces found;
  const auto add = [&](int64_t first, int64_t count) {
    if (!found.empty() && found.back().first + found.back().count == first)
      found.back().count += count;
    else
      found.push_back({first, count});
  };
  int64_t start = 0;
  for (const Section& section : sections) {
    if (section.repeats == 0) add(start, section.width);
    const int64_t of_unit = section.repeats == 0 ? 0 : section.width / section.repeats / units;
    for (int64_t i = 0; i < section.repeats; ++i)
      add(start + (i * units + first_unit) * of_unit, (end_unit - first_unit) * of_unit);
    start += section.width;
  }
  return found;
}

// The same, scaled to a width of `of`.
Pieces Sharder::pieces(const ValueForm& part, int64_t of) const {
  int64_t all = 0;
  for (const Section& section : part.sections) all += section.width;
  Sections sections = part.sections;
  for (Section& section : sections) section.width = section.width * of / all;
  return pieces(shares_.units(part), sections);
}

int64_t Sharder::own_width(ValueId id, const ValueForm& form) const {
  const int64_t width = whole_.values[id].width;
  return form.form == Form::part ? count_of(pieces(form, width)) : width;
}

// Where the section at column `place` lies.
int64_t Sharder::own_place(const ValueForm& form, int64_t place) const {
  if (form.form != Form::part) return place;
  Sections before;
  for (int64_t start = 0; start < place; start += before.back().width) before.push_back(form.sections[before.size()]);
  return count_of(pieces(shares_.units(form), before));
}

void Sharder::share_caches() {
  for (size_t i = 0; i < whole_.kv_layers.size(); ++i)
    if (const int64_t units = shares_.units_of_cache(static_cast<int32_t>(i)); units > 0)
      program().kv_layers[i].heads = count_of(pieces(units, {{whole_.kv_layers[i].heads}}));
}

// The rank's part or term of `id` becomes the whole.
void Sharder::add_exchange(OpKind kind, size_t origin, ValueId id, int64_t first) {
  const Op& writer = whole_.ops[origin];
  ValueInfo info = whole_.values[id];
  info.name += kind == OpKind::all_reduce ? ".sum" : ".all";
  program().values.push_back(info);
  const auto out = static_cast<ValueId>(program().values.size() - 1);
  program().ops.push_back({kind,
                           writer.layer,
                           writer.name + (kind == OpKind::all_reduce ? ".sum" : ".all"),
                           {now_[id]},
                           {out},
                           {},
                           RankParams{ranks_, rank_, first}});
  shard_.origins.push_back(static_cast<int32_t>(origin));
  now_[id] = out;
}

void Sharder::add_op(size_t index) {
  const Op& op = whole_.ops[index];
  const Shares::OpForms& forms = shares_.of(index);
  for (const ValueId id : forms.summed) add_exchange(OpKind::all_reduce, writers_[id], id, 0);
  for (const ValueId id : op.outputs) writers_[id] = index;
  if (ValueId term = -1; passes_term(op, forms, term)) {
    now_[op.outputs[0]] = now_[term];
    return;
  }
  if (forms.joins) return add_joined_norm(index);
  Op shared = op;
  for (ValueId& id : shared.inputs) id = now_[id];
  for (size_t i = 0; i < op.outputs.size(); ++i)
    program().values[op.outputs[i]].width = own_width(op.outputs[i], forms.outputs[i]);
  shared.params = params_of(op, forms);
  if (const int32_t* state = state_layer(shared.params); state && forms.outputs[0].form == Form::part)
    program().states[*state].width =
        whole_.states[*state].width / whole_.values[op.outputs[0]].width * program().values[op.outputs[0]].width;
  shared.weights = weights_of(op, forms);
  program().ops.push_back(std::move(shared));
  shard_.origins.push_back(static_cast<int32_t>(index));
}

void Sharder::add_joined_norm(size_t index) {
  const Op& op = whole_.ops[index];
  const Shares::OpForms& forms = shares_.of(index);
  const ValueId x = op.inputs[0], out = op.outputs[0], own = now_[x];
  add_exchange(OpKind::all_gather, writers_[x], x, pieces(forms.inputs[0], whole_.values[x].width)[0].first);
  program().values.push_back(whole_.values[out]);
  program().values.back().name += ".all";
  const auto normed = static_cast<ValueId>(program().values.size() - 1);
  Op norm = op;
  norm.inputs = {now_[x]};
  norm.outputs = {normed};
  for (WeightId& id : norm.weights) id = cut(id, Cut::none);
  program().ops.push_back(std::move(norm));
  const int64_t width = whole_.values[out].width;
  program().values[out].width = own_width(out, forms.outputs[0]);
  program().weights.push_back(order_of(pieces(forms.outputs[0], width)));
  program().ops.push_back({OpKind::permute,
                           op.layer,
                           op.name + ".own",
                           {normed},
                           {out},
                           {static_cast<WeightId>(program().weights.size() - 1)},
                           PermuteParams{width}});
  shard_.origins.insert(shard_.origins.end(), 2, static_cast<int32_t>(index));
  now_[x] = own;
}

// Whether rank 0 alone adds a whole operand to a term.
bool Sharder::passes_term(const Op& op, const Shares::OpForms& forms, ValueId& term) const {
  if (op.kind != OpKind::add || rank_ == 0 || forms.outputs[0].form != Form::term) return false;
  const bool first = forms.inputs[0].form == Form::term, second = forms.inputs[1].form == Form::term;
  term = op.inputs[first ? 0 : 1];
  return first != second;
}

OpParams Sharder::params_of(const Op& op, const Shares::OpForms& forms) const {
  OpParams params = op.params;
  if (auto* experts = std::get_if<ExpertParams>(&params); experts && forms.inputs[1].form == Form::part)
    experts->used = own_width(op.inputs[1], forms.inputs[1]);
  if (forms.inputs.empty() || forms.inputs[0].form != Form::part) return params;
  const auto share = [&](int64_t& heads) { // in proportion to the input
    heads = heads * own_width(op.inputs[0], forms.inputs[0]) / whole_.values[op.inputs[0]].width;
  };
  if (auto* rope = std::get_if<RopeParams>(&params)) share(rope->heads);
  if (auto* attention = std::get_if<AttentionParams>(&params)) share(attention->heads);
  if (auto* delta = std::get_if<DeltaParams>(&params)) {
    const int64_t of_key = delta->v_heads / delta->k_heads;
    delta->v_heads = own_width(op.outputs[0], forms.outputs[0]) / delta->dim;
    delta->k_heads = delta->v_heads / of_key;
    delta->q_at = own_place(forms.inputs[0], delta->q_at);
    delta->k_at = own_place(forms.inputs[1], delta->k_at);
    delta->v_at = own_place(forms.inputs[2], delta->v_at);
  }
  if (auto* scan = std::get_if<ScanParams>(&params)) share_heads(*scan, forms);
  return params;
}

// If b and c are whole, the rank reads those of its heads' group.
void Sharder::share_heads(ScanParams& params, const Shares::OpForms& forms) const {
  const Pieces own = pieces(forms.outputs[0], params.heads);
  const int64_t of_group = params.heads / params.groups, b_width = params.groups * params.states;
  params.x_at = own_place(forms.inputs[0], params.x_at);
  params.b_at = own_place(forms.inputs[1], params.b_at);
  params.c_at = own_place(forms.inputs[2], params.c_at);
  const ValueForm& b = forms.inputs[1];
  const bool has_all = b.form != Form::part || std::ranges::count(b.sections, Section{b_width, 0}) > 0;
  if (has_all) {
    const int64_t group = own[0].first / of_group;
    params.b_at += group * params.states;
    params.c_at += group * params.states;
  }
  params.heads = count_of(own);
  params.groups = has_all ? 1 : params.heads / of_group;
}

std::vector<WeightId> Sharder::weights_of(const Op& op, const Shares::OpForms& forms) {
  std::vector<WeightId> weights;
  const bool product = op.kind == OpKind::linear || op.kind == OpKind::expert_linear;
  const ValueForm& in = forms.inputs.empty() ? ValueForm{} : forms.inputs[0];
  const ValueForm& out = forms.outputs.empty() ? ValueForm{} : forms.outputs[0];
  const auto add = [&](size_t i, Cut how, const Pieces& of = {}) { weights.push_back(cut(op.weights[i], how, of)); };
  for (size_t i = 0; i < op.weights.size(); ++i) {
    const Weight& w = whole_.weights[op.weights[i]];
    if (product && i == 1 && out.form == Form::term) { // only rank 0 adds a bias
      if (rank_ == 0) add(i, Cut::none);
    } else if (op.kind == OpKind::expert_linear && forms.inputs[1].form == Form::part) {
      i == 0 ? add(i, Cut::matrices, pieces(forms.inputs[1], w.count))
             : add(i, Cut::columns, pieces(forms.inputs[1], w.cols));
    } else if (op.kind == OpKind::expert_linear && in.form == Form::part) {
      add(i, Cut::columns, pieces(shares_.units(in), {{w.cols}}));
    } else if (op.kind == OpKind::expert_linear && out.form == Form::part) {
      const int64_t units = shares_.units(out);
      i == 0 ? add(i, Cut::rows, pieces(units, {{w.rows}}))
             : add(i, Cut::columns, pieces(units, {{w.cols, w.cols / whole_.weights[op.weights[0]].rows}}));
    } else if (op.kind == OpKind::linear && in.form != Form::part && out.form == Form::part) {
      i == 0 ? add(i, Cut::rows, pieces(out, w.rows)) : add(i, Cut::columns, pieces(out, w.cols));
    } else if (op.kind == OpKind::conv1d && in.form == Form::part && i == 0) {
      add(i, Cut::taps, pieces(in, w.rows));
    } else if (op.kind == OpKind::delta_rule && in.form == Form::part) {
      add(i, Cut::columns, pieces(forms.inputs[i == 0 ? 4 : 3], w.cols)); // a like beta, dt like alpha
    } else if (op.kind == OpKind::scan && in.form == Form::part) {
      add(i, Cut::columns, pieces(forms.inputs[3], w.cols));
    } else if (in.form == Form::part &&
               !(std::holds_alternative<NormParams>(op.params) && w.cols == std::get<NormParams>(op.params).group)) {
      add(i, Cut::columns, pieces(in, w.cols));
    } else {
      add(i, Cut::none);
    }
  }
  return weights;
}

WeightId Sharder::cut(WeightId id, Cut how, const Pieces& pieces) {
  const auto [known, added] = cut_weights_.try_emplace({id, how, pieces}, 0);
  if (added) {
    known->second = static_cast<WeightId>(program().weights.size());
    program().weights.push_back(cut_weight(whole_.weights[id], how, pieces));
  }
  return known->second;
}

Weight Sharder::cut_weight(const Weight& whole, Cut how, const Pieces& pieces) const {
  switch (how) {
  case Cut::none: break;
  case Cut::rows: return cut_rows(whole, pieces, true, copies_);
  case Cut::taps: return cut_rows(whole, pieces, false, copies_);
  case Cut::columns: return cut_columns(whole, pieces, block_weights_(whole.type), copies_);
  case Cut::matrices: return cut_matrices(whole, pieces[0]);
  }
  return whole;
}

} // namespace

Shard shard_program(const Program& whole, int rank, int ranks, const BlockWeights& block_weights, bool sizes_only) {
  return Sharder(whole, rank, ranks, block_weights, sizes_only).run();
}

} // namespace ridge::core
