#include "core/parallel/shares.h"

#include <algorithm>
#include <numeric>

namespace ridge::core {

// Assumes that all values can be divided. If an op needs a whole one, its group is kept whole and the walk restarts;
// likewise if an op wants other sections than its producer chose.
Shares::Shares(const Program& program, int ranks, const BlockWeights& block_weights)
    : program_(program), ranks_(ranks), block_weights_(block_weights) {
  do walk();
  while (prepare_another_walk());
}

void Shares::walk() {
  values_.assign(program_.values.size(), {});
  caches_.assign(program_.kv_layers.size(), -1);
  forms_.assign(program_.ops.size(), {});
  parents_.clear();
  units_.clear();
  broken_.clear();
  recurrent_.clear();
  learned_ = false;
  const auto form_of = [&](ValueId id) { return values_[id]; };
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    std::vector<ValueForm> before;
    std::ranges::transform(op.inputs, std::back_inserter(before), form_of);
    joins_ = false;
    visit(op);
    forms_[i].joins = joins_;
    for (size_t j = 0; j < op.inputs.size(); ++j)
      if (before[j].form == Form::term && is(op.inputs[j], Form::whole) &&
          !std::ranges::count(forms_[i].summed, op.inputs[j]))
        forms_[i].summed.push_back(op.inputs[j]);
    std::ranges::transform(op.inputs, std::back_inserter(forms_[i].inputs), form_of);
    std::ranges::transform(op.outputs, std::back_inserter(forms_[i].outputs), form_of);
  }
  for (const ValueId id : {program_.output, program_.hidden})
    if (id >= 0 && is(id, Form::part)) break_group(values_[id].group);
}

bool Shares::prepare_another_walk() {
  if (learned_) return true; // units from outdated sections are meaningless
  const size_t before = kept_whole_.size();
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].form != Form::part) continue;
    const int32_t group = root(values_[i].group);
    if (broken_[group] || units_[group] < ranks_) kept_whole_.insert(static_cast<ValueId>(i));
  }
  return kept_whole_.size() > before;
}

int32_t Shares::new_group() {
  const auto group = static_cast<int32_t>(parents_.size());
  parents_.push_back(group);
  units_.push_back(0); // no limit: gcd(0, n) is n
  broken_.push_back(false);
  recurrent_.push_back(false);
  return group;
}

void Shares::unite(int32_t a, int32_t b) {
  const int32_t to = root(a), from = root(b);
  if (to == from) return;
  parents_[from] = to;
  units_[to] = std::gcd(units_[to], units_[from]);
  broken_[to] = broken_[to] || broken_[from];
  recurrent_[to] = recurrent_[to] || recurrent_[from];
}

void Shares::limit(ValueId part, int64_t granule) {
  const ValueForm& value = values_[part];
  int64_t& units = units_[root(value.group)];
  for (const Section& section : value.sections) {
    if (section.repeats == 0) continue;
    const int64_t width_of_repeat = section.width / section.repeats;
    units = std::gcd(units, width_of_repeat % granule == 0 ? width_of_repeat / granule : 1);
  }
}

// Whole blocks, or the 32 that kernels read at once.
int64_t Shares::columns_together(const Weight& matrix) const {
  constexpr int64_t kAtOnce = 32;
  const int64_t block = block_weights_(matrix.type);
  return block < kAtOnce && kAtOnce % block == 0 && matrix.cols % kAtOnce == 0 ? kAtOnce : block;
}

void Shares::need_whole(ValueId id) {
  if (is(id, Form::part))
    break_group(values_[id].group);
  else
    values_[id] = {};
}

// The next walk keeps the term's sources whole.
bool Shares::need_part(ValueId id) {
  if (is(id, Form::term) && values_[id].group >= 0 && !kept_whole_.contains(id)) {
    break_group(values_[id].group);
    start_part(id, 1, 1);
  }
  return is(id, Form::part);
}

void Shares::need_plain(ValueId part) {
  if (!values_[part].is_plain()) break_group(values_[part].group);
}

// Returns false if it has other sections.
bool Shares::request_sections(ValueId part, const Sections& sections) {
  ValueForm& value = values_[part];
  if (value.sections == sections) return true;
  if (sections.empty() || !value.is_plain() || !wanted_.try_emplace(part, sections).second) {
    break_group(value.group);
    return false;
  }
  learned_ = true;
  value.sections = sections;
  return true;
}

// Scales to another width; empty if that would split elements.
static Sections scaled(Sections sections, int64_t from, int64_t to) {
  for (Section& section : sections) {
    if (section.width * to % from != 0) return {};
    section.width = section.width * to / from;
  }
  return sections;
}

void Shares::match_sections(ValueId a, ValueId b) {
  unite(values_[a].group, values_[b].group);
  const Sections of_a = scaled(values_[a].sections, width(a), width(b));
  if (values_[b].is_plain() && of_a != values_[b].sections)
    request_sections(b, of_a);
  else
    request_sections(a, scaled(values_[b].sections, width(b), width(a)));
}

void Shares::start_part(ValueId out, int64_t repeats, int64_t granule) {
  if (kept_whole_.contains(out)) return;
  const auto wanted = wanted_.find(out);
  values_[out] = {Form::part, new_group(), wanted != wanted_.end() ? wanted->second : Sections{{width(out), repeats}}};
  limit(out, granule);
}

void Shares::follow(ValueId out, ValueId part, int64_t granule) {
  if (const auto wanted = wanted_.find(out); wanted != wanted_.end())
    request_sections(part, scaled(wanted->second, width(out), width(part)));
  Sections sections = scaled(values_[part].sections, width(part), width(out));
  if (sections.empty()) break_group(values_[part].group);
  values_[out] = {Form::part, values_[part].group, std::move(sections)};
  limit(out, granule);
}

void Shares::visit(const Op& op) {
  switch (op.kind) {
  case OpKind::linear: return visit_linear(op);
  case OpKind::expert_linear: return visit_expert_linear(op);
  case OpKind::head_ids: return start_part(op.outputs[0], 1, 1);
  case OpKind::rms_norm:
  case OpKind::layer_norm: return visit_norm(op);
  case OpKind::rope:
  case OpKind::position_scale:
  case OpKind::activate:
  case OpKind::gather: return visit_elements(op);
  case OpKind::glu: return visit_glu(op);
  case OpKind::add: return visit_add(op);
  case OpKind::adapter_scale: return visit_adapter_scale(op);
  case OpKind::kv_store: return visit_kv_store(op);
  case OpKind::attention:
  case OpKind::sparse_attention: return visit_attention(op);
  case OpKind::latent_attention: return visit_latent_attention(op);
  case OpKind::expert_sum:
  case OpKind::fold: return visit_sum(op);
  case OpKind::conv1d: return visit_conv1d(op);
  case OpKind::delta_rule: return visit_delta_rule(op);
  case OpKind::scan: return visit_scan(op);
  default: return need_whole(op.inputs);
  }
}

void Shares::visit_linear(const Op& op) {
  const ValueId x = op.inputs[0], out = op.outputs[0];
  if (is(x, Form::part)) {
    limit(x, columns_together(weight(op, 0)));
    if (std::ranges::count(values_[x].sections, 0, &Section::repeats) > 0) break_group(values_[x].group);
    values_[out] = {Form::term, values_[x].group};
    return;
  }
  need_whole(x);
  start_part(out, 1, 1);
}

// Ranks have rows or columns of each routed expert, or the matrices of their heads.
void Shares::visit_expert_linear(const Op& op) {
  const ValueId x = op.inputs[0], ids = op.inputs[1], out = op.outputs[0];
  const Weight& w = weight(op, 0);
  const int64_t used = std::get<ExpertParams>(op.params).used;
  const bool input_each = width(x) == used * w.cols && used > 1;
  if (is(ids, Form::part)) {
    if (is(x, Form::part) && input_each && values_[x].is_plain()) {
      unite(values_[ids].group, values_[x].group);
      limit(x, w.cols);
    } else {
      need_whole(x);
      if (input_each) need_whole(ids);
    }
    return follow(out, ids, w.rows);
  }
  if (is(x, Form::part)) {
    if (values_[x].sections != Sections{{width(x), input_each ? used : 1}}) break_group(values_[x].group);
    limit(x, columns_together(w));
    values_[out] = {Form::term, values_[x].group};
    return;
  }
  need_whole(x);
  start_part(out, used, 1);
}

void Shares::visit_norm(const Op& op) {
  const ValueId x = op.inputs[0];
  if (!is(x, Form::part)) return need_whole(x);
  const int64_t group = std::get<NormParams>(op.params).group;
  // Heads with a state are divided even if a norm spans several ranks.
  joins_ = recurrent_[root(values_[x].group)] && values_[x].is_plain() && width(x) / group < ranks_;
  const int64_t granule = joins_ ? 1 : group;
  limit(x, granule);
  follow(op.outputs[0], x, granule);
}

void Shares::visit_elements(const Op& op) {
  const ValueId x = op.inputs[0], out = op.outputs[0];
  if (is(x, Form::part)) {
    const auto* rope = std::get_if<RopeParams>(&op.params);
    return follow(out, x, rope ? rope->head_dim : 1);
  }
  const auto* activation = std::get_if<ActivationParams>(&op.params);
  const bool linear =
      op.kind == OpKind::gather ||
      (activation && op.weights.empty() && *activation == ActivationParams{Activation::identity, activation->alpha});
  if (!linear) need_whole(x);
  values_[out] = values_[x];
}

void Shares::visit_glu(const Op& op) {
  const ValueId gate = op.inputs[0], x = op.inputs[1], out = op.outputs[0];
  const auto& params = std::get<ActivationParams>(op.params);
  if (is(x, Form::part) && width(gate) > 1 && need_part(gate)) {
    match_sections(gate, x);
    limit(gate, 1);
    return follow(out, x, width(x) / width(gate));
  }
  need_whole(gate);
  if (is(x, Form::part) && width(gate) == 1) return follow(out, x, 1);
  if (params.limit != 0 || params.shift != 0 || is(x, Form::part)) need_whole(x);
  values_[out] = values_[x].form == Form::part ? ValueForm{} : values_[x];
}

// Rank 0 adds whole operands to terms.
void Shares::visit_add(const Op& op) {
  const ValueId a = op.inputs[0], b = op.inputs[1], out = op.outputs[0];
  if (is(a, Form::part) && is(b, Form::part) && values_[a].sections == values_[b].sections) {
    unite(values_[a].group, values_[b].group);
    return follow(out, a, 1);
  }
  for (const ValueId id : {a, b})
    if (is(id, Form::part)) need_whole(id);
  if (is(a, Form::whole) && is(b, Form::term) && std::get<AddParams>(op.params).scale != 1) need_whole(b);
  if (is(a, Form::term) || is(b, Form::term)) values_[out] = {Form::term};
}

// The few elements between an adapter's matrices stay whole, so the second can be cut like the main matrix.
void Shares::visit_adapter_scale(const Op& op) {
  const ValueId x = op.inputs[0];
  if (is(x, Form::part)) return need_whole(x);
  values_[op.outputs[0]] = values_[x];
}

void Shares::visit_kv_store(const Op& op) {
  const ValueId k = op.inputs[0], v = op.inputs[1];
  const int32_t layer = std::get<KvParams>(op.params).layer;
  const KvLayer& kv = program_.kv_layers[layer];
  if (!is(k, Form::part) || !is(v, Form::part)) return need_whole(op.inputs);
  unite(values_[k].group, values_[v].group);
  need_plain(k);
  need_plain(v);
  limit(k, kv.k_dim);
  limit(v, kv.v_dim);
  caches_[layer] = values_[k].group;
}

// Query heads follow their KV head. A single KV head serves all.
void Shares::visit_attention(const Op& op) {
  const ValueId q = op.inputs[0];
  if (op.inputs.size() > 1) need_whole(op.inputs[1]); // chosen positions
  const auto& params = std::get<AttentionParams>(op.params);
  const KvLayer& kv = program_.kv_layers[params.layer];
  const int32_t cache = caches_[params.layer];
  const bool numbered = params.max_bias != 0 || params.reach != 0;
  if (!is(q, Form::part) || numbered || (cache < 0 && kv.heads > 1)) {
    if (cache >= 0) break_group(cache);
    return need_whole(q);
  }
  if (cache >= 0) unite(values_[q].group, cache);
  need_plain(q);
  const int64_t heads = cache < 0 ? 1 : params.heads / kv.heads;
  limit(q, heads * kv.k_dim);
  follow(op.outputs[0], q, heads * kv.v_dim);
}

void Shares::visit_latent_attention(const Op& op) {
  const ValueId q = op.inputs[0], rest = op.inputs[1];
  const KvLayer& kv = program_.kv_layers[std::get<AttentionParams>(op.params).layer];
  if (!is(q, Form::part) || !is(rest, Form::part)) return need_whole(op.inputs);
  unite(values_[q].group, values_[rest].group);
  need_plain(q);
  need_plain(rest);
  limit(q, kv.v_dim);
  if (rest != q) limit(rest, kv.k_dim - kv.v_dim);
  follow(op.outputs[0], q, kv.v_dim);
}

void Shares::visit_sum(const Op& op) {
  const ValueId x = op.inputs[0];
  for (size_t i = 1; i < op.inputs.size(); ++i) need_whole(op.inputs[i]);
  if (is(x, Form::part)) need_whole(x);
  values_[op.outputs[0]] = is(x, Form::term) ? ValueForm{Form::term} : ValueForm{};
}

} // namespace ridge::core
