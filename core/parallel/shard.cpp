#include "core/parallel/shard.h"

#include "core/parallel/shares.h"

#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace ridge::core {
namespace {

// The units of a group that a rank has.
struct Share {
  int64_t units, first, count;
  int64_t of(int64_t elements) const { return elements / units * count; }     // of so many elements in all units
  int64_t before(int64_t elements) const { return elements / units * first; } // those of the ranks before
};

class Sharder {
 public:
  Sharder(const Program& whole, int rank, int ranks, const BlockWeights& block_weights)
      : whole_(whole), rank_(rank), ranks_(ranks), block_weights_(block_weights), shares_(whole, ranks, block_weights) {
  }

  Shard run();

 private:
  Share share_of(int64_t units) const {
    const int64_t first = units * rank_ / ranks_;
    return {units, first, units * (rank_ + 1) / ranks_ - first};
  }
  Share share_of(const ValueForm& part) const { return share_of(shares_.units(part)); }
  Program& program() { return shard_.program; }
  ValueId mapped(ValueId id) const { return id < 0 ? id : now_[id]; }

  void set_width(ValueId id, const ValueForm& form);
  void share_caches();
  void add_exchange(OpKind kind, size_t origin, ValueId id, int64_t first);
  void add_op(size_t index);
  bool passes_term(const Op& op, const Shares::OpForms& forms, ValueId& term) const;
  OpParams params_of(const Op& op, const Shares::OpForms& forms) const;
  std::vector<WeightId> weights_of(const Op& op, const Shares::OpForms& forms);

  enum class Cut : uint8_t { none, rows, columns, matrices };
  WeightId cut(WeightId id, Cut how, const Share& share, int64_t repeats = 1);
  Weight cut_weight(const Weight& whole, Cut how, const Share& share, int64_t repeats) const;

  const Program& whole_;
  const int rank_, ranks_;
  const BlockWeights& block_weights_;
  const Shares shares_;
  Shard shard_;
  std::vector<ValueId> now_;    // by value of the whole Program: what stands for it
  std::vector<size_t> writers_; // by value of the whole Program: its op
  std::map<std::tuple<WeightId, Cut, int64_t>, WeightId> cut_weights_;
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
  // What is read behind the last op.
  for (const ValueId id : std::set{whole_.logits, whole_.output, whole_.hidden}) {
    if (id < 0) continue;
    const ValueForm form = shares_.final_form(id);
    if (form.form == Form::term) add_exchange(OpKind::all_reduce, writers_[id], id, 0);
    if (form.form == Form::part)
      add_exchange(OpKind::all_gather, writers_[id], id, share_of(form).before(whole_.values[id].width));
  }
  p.logits = mapped(whole_.logits);
  p.output = mapped(whole_.output);
  p.hidden = mapped(whole_.hidden);
  validate(p);
  return std::move(shard_);
}

void Sharder::share_caches() {
  for (size_t i = 0; i < whole_.kv_layers.size(); ++i)
    if (const int64_t units = shares_.units_of_cache(static_cast<int32_t>(i)); units > 0)
      program().kv_layers[i].heads = share_of(units).of(whole_.kv_layers[i].heads);
}

// What a rank has of `id` becomes the whole of it.
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

void Sharder::set_width(ValueId id, const ValueForm& form) {
  if (form.form == Form::part) program().values[id].width = share_of(form).of(whole_.values[id].width);
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
  Op shared = op;
  for (ValueId& id : shared.inputs) id = now_[id];
  for (size_t i = 0; i < op.outputs.size(); ++i) set_width(op.outputs[i], forms.outputs[i]);
  shared.params = params_of(op, forms);
  shared.weights = weights_of(op, forms);
  program().ops.push_back(std::move(shared));
  shard_.origins.push_back(static_cast<int32_t>(index));
}

// An addition of what all ranks have to a term is the first rank's.
bool Sharder::passes_term(const Op& op, const Shares::OpForms& forms, ValueId& term) const {
  if (op.kind != OpKind::add || rank_ == 0 || forms.outputs[0].form != Form::term) return false;
  const bool first = forms.inputs[0].form == Form::term, second = forms.inputs[1].form == Form::term;
  term = op.inputs[first ? 0 : 1];
  return first != second;
}

OpParams Sharder::params_of(const Op& op, const Shares::OpForms& forms) const {
  OpParams params = op.params;
  const ValueForm& form = forms.inputs.empty() ? ValueForm{} : forms.inputs[0];
  if (form.form != Form::part) return params;
  const Share share = share_of(form);
  if (auto* rope = std::get_if<RopeParams>(&params)) rope->heads = share.of(rope->heads);
  if (auto* attention = std::get_if<AttentionParams>(&params)) attention->heads = share.of(attention->heads);
  if (auto* experts = std::get_if<ExpertParams>(&params); experts && forms.inputs[1].form == Form::part)
    experts->used = share.of(experts->used);
  return params;
}

std::vector<WeightId> Sharder::weights_of(const Op& op, const Shares::OpForms& forms) {
  std::vector<WeightId> weights;
  const bool product = op.kind == OpKind::linear || op.kind == OpKind::expert_linear;
  for (size_t i = 0; i < op.weights.size(); ++i) {
    const WeightId id = op.weights[i];
    const Weight& w = whole_.weights[id];
    if (product && i == 1 && forms.outputs[0].form == Form::term) { // a bias is added once
      if (rank_ == 0) weights.push_back(cut(id, Cut::none, {1, 0, 1}));
      continue;
    }
    const ValueForm& in = forms.inputs.empty() ? ValueForm{} : forms.inputs[0];
    const ValueForm& out = forms.outputs.empty() ? ValueForm{} : forms.outputs[0];
    if (op.kind == OpKind::expert_linear && forms.inputs[1].form == Form::part)
      weights.push_back(cut(id, i == 0 ? Cut::matrices : Cut::columns, share_of(forms.inputs[1])));
    else if (product && in.form == Form::part)
      weights.push_back(cut(id, Cut::columns, share_of(in)));
    else if (product && out.form == Form::part)
      weights.push_back(i == 0 ? cut(id, Cut::rows, share_of(out))
                               : cut(id, Cut::columns, share_of(out), w.cols / whole_.weights[op.weights[0]].rows));
    else if (in.form == Form::part &&
             !(std::holds_alternative<NormParams>(op.params) && w.cols == std::get<NormParams>(op.params).group))
      weights.push_back(cut(id, Cut::columns, share_of(in)));
    else
      weights.push_back(cut(id, Cut::none, {1, 0, 1}));
  }
  return weights;
}

WeightId Sharder::cut(WeightId id, Cut how, const Share& share, int64_t repeats) {
  const auto [known, added] = cut_weights_.try_emplace({id, how, share.units}, 0);
  if (added) {
    known->second = static_cast<WeightId>(program().weights.size());
    program().weights.push_back(cut_weight(whole_.weights[id], how, share, repeats));
  }
  return known->second;
}

// A view where runs of rows can say it, else a copy.
Weight Sharder::cut_weight(const Weight& whole, Cut how, const Share& share, int64_t repeats) const {
  Weight w = whole;
  const auto copy_runs = [&](int64_t runs, int64_t run_bytes, auto&& start) {
    auto bytes = std::make_shared<std::vector<std::byte>>(runs * run_bytes);
    for (int64_t i = 0; i < runs; ++i) std::memcpy(bytes->data() + i * run_bytes, start(i), run_bytes);
    w.owned = bytes;
    w.data = bytes->data();
    w.run_rows = w.run_stride = 0;
  };
  switch (how) {
  case Cut::none: return w;
  case Cut::matrices:
    w.count = share.of(whole.count);
    w.data = whole.row(share.before(whole.count) * whole.rows);
    return w;
  case Cut::rows: {
    const int64_t first = share.before(whole.rows);
    w.rows = share.of(whole.rows);
    if (whole.run_rows == 0) {
      w.data = whole.data + first * whole.row_bytes;
      if (whole.count > 1) w.run_rows = w.rows, w.run_stride = whole.matrix_bytes();
    } else if (whole.count == 1 && first % whole.run_rows == 0 && w.rows % whole.run_rows == 0) {
      w.data = whole.row(first);
    } else {
      copy_runs(w.count * w.rows, w.row_bytes,
                [&](int64_t row) { return whole.row(row / w.rows * whole.rows + first + row % w.rows); });
    }
    return w;
  }
  case Cut::columns: {
    const int64_t block = block_weights_(whole.type), block_bytes = whole.row_bytes / (whole.cols / block);
    const int64_t all = whole.cols / repeats, first = share.before(all) / block * block_bytes;
    const int64_t bytes = share.of(all) / block * block_bytes; // of a repeat
    w.cols = share.of(whole.cols);
    w.row_bytes = repeats * bytes;
    if (repeats > 1) {
      copy_runs(repeats, bytes, [&](int64_t i) { return whole.data + i * (whole.row_bytes / repeats) + first; });
    } else if (whole.run_rows <= 1) {
      w.data = whole.data + first;
      if (whole.rows * whole.count > 1)
        w.run_rows = 1, w.run_stride = whole.run_rows == 1 ? whole.run_stride : whole.row_bytes;
    } else {
      copy_runs(w.count * w.rows, bytes, [&](int64_t row) { return whole.row(row) + first; });
    }
    return w;
  }
  }
  return w;
}

} // namespace

Shard shard_program(const Program& whole, int rank, int ranks, const BlockWeights& block_weights) {
  return Sharder(whole, rank, ranks, block_weights).run();
}

} // namespace ridge::core
