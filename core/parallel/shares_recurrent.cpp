// How layers with a recurrent state are shared out: by heads, each with its part of the state. Heads that share a key,
// or b and c of a scan, stay together where there are as many groups of them as ranks. The convolution in front treats
// channels alike.
#include "core/parallel/shares.h"

#include <algorithm>

namespace ridge::core {

void Shares::visit_conv1d(const Op& op) {
  const ValueId x = op.inputs[0];
  is(x, Form::part) ? follow(op.outputs[0], x, 1) : need_whole(x);
}

// The inputs may be stretches of one value or values of their own. False where some cannot be cut so.
bool Shares::want_stretches(std::vector<Stretch> stretches) {
  std::ranges::sort(stretches, {}, [](const Stretch& s) { return std::pair(s.value, s.first); });
  for (auto first = stretches.begin(); first != stretches.end();) {
    const ValueId value = first->value;
    Sections sections;
    int64_t end = 0;
    for (; first != stretches.end() && first->value == value; ++first) {
      if (first->first != end) return false; // something lies between, or they overlap
      sections.push_back(first->section);
      end += first->section.width;
    }
    if (end != width(value)) return false;
    if (std::ranges::all_of(sections, [](const Section& s) { return s.repeats == 0; }))
      need_whole(value);
    else if (!need_part(value) || !want(value, sections))
      return false;
  }
  return true;
}

// The output of a recurrent op whose inputs are parts, and of whose heads a rank has some.
void Shares::end_recurrent(const Op& op, const Sections& sections, int64_t granule) {
  const ValueId out = op.outputs[0];
  values_[out] = {Form::part, new_group(), sections};
  recurrent_[values_[out].group] = true;
  for (const ValueId id : op.inputs)
    if (is(id, Form::part)) unite(values_[id].group, values_[out].group);
  limit(out, granule);
}

// Value heads of one key head go where it goes. Where they take turns among the key heads, a rank has its units of each
// turn.
void Shares::visit_delta_rule(const Op& op) {
  const auto& p = std::get<DeltaParams>(op.params);
  const ValueId alpha = op.inputs[3], beta = op.inputs[4];
  const int64_t keys = p.k_heads * p.dim, values = p.v_heads * p.dim;
  const int64_t turns = p.neighbors_share ? 1 : p.v_heads / p.k_heads;
  if (!want_stretches({{op.inputs[0], p.q_at, {keys}},
                       {op.inputs[1], p.k_at, {keys}},
                       {op.inputs[2], p.v_at, {values, turns}},
                       {alpha, 0, {width(alpha), turns}},
                       {beta, 0, {width(beta), turns}}}))
    return need_whole(op.inputs);
  for (size_t i = 0; i < 3; ++i) limit(op.inputs[i], p.dim);
  end_recurrent(op, {{values, turns}}, p.v_heads / turns / p.k_heads * p.dim);
}

// Heads that share b and c go together. Where there are fewer groups of them than ranks, every rank has b and c of all,
// and its heads are of one group.
void Shares::visit_scan(const Op& op) {
  const auto& p = std::get<ScanParams>(op.params);
  const int64_t of_group = p.groups * p.states, inner = p.heads * p.head_dim;
  const bool by_group = p.groups >= ranks_;
  const bool divides = by_group || p.groups == 1 || (ranks_ % p.groups == 0 && p.heads % ranks_ == 0);
  const Section group_section{of_group, by_group ? 1 : 0};
  if (!divides || !want_stretches({{op.inputs[0], p.x_at, {inner}},
                                   {op.inputs[1], p.b_at, group_section},
                                   {op.inputs[2], p.c_at, group_section},
                                   {op.inputs[3], 0, {p.heads}}}))
    return need_whole(op.inputs);
  const int64_t together = by_group ? p.heads / p.groups : p.groups == 1 ? 1 : p.heads / ranks_;
  end_recurrent(op, {{inner}}, together * p.head_dim);
}

} // namespace ridge::core
