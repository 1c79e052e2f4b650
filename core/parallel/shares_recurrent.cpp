// Recurrent layers are divided by heads. Those that share a key, or a scan's b and c, stay together if there are enough
// groups. Convolutions treat channels alike.
#include "core/parallel/shares.h"

#include <algorithm>

namespace ridge::core {

void Shares::visit_conv1d(const Op& op) {
  const ValueId x = op.inputs[0];
  is(x, Form::part) ? follow(op.outputs[0], x, 1) : need_whole(x);
}

bool Shares::request_input_ranges(std::vector<InputRange> stretches) {
  std::ranges::sort(stretches, {}, [](const InputRange& s) { return std::pair(s.value, s.first); });
  for (auto first = stretches.begin(); first != stretches.end();) {
    const ValueId value = first->value;
    Sections sections;
    int64_t end = 0;
    for (; first != stretches.end() && first->value == value; ++first) {
      if (first->first != end) return false; // gap or overlap
      sections.push_back(first->section);
      end += first->section.width;
    }
    if (end != width(value)) return false;
    if (std::ranges::all_of(sections, [](const Section& s) { return s.repeats == 0; }))
      need_whole(value);
    else if (!need_part(value) || !request_sections(value, sections))
      return false;
  }
  return true;
}

void Shares::end_recurrent(const Op& op, const Sections& sections, int64_t granule) {
  const ValueId out = op.outputs[0];
  values_[out] = {Form::part, new_group(), sections};
  recurrent_[values_[out].group] = true;
  for (const ValueId id : op.inputs)
    if (is(id, Form::part)) unite(values_[id].group, values_[out].group);
  limit(out, granule);
}

// Value heads follow their key head; if they alternate, a rank has its units of each turn.
void Shares::visit_delta_rule(const Op& op) {
  const auto& p = std::get<DeltaParams>(op.params);
  const ValueId alpha = op.inputs[3], beta = op.inputs[4];
  const int64_t keys = p.k_heads * p.dim, values = p.v_heads * p.dim;
  const int64_t turns = p.neighbors_share ? 1 : p.v_heads / p.k_heads;
  if (!request_input_ranges({{op.inputs[0], p.q_at, {keys}},
                             {op.inputs[1], p.k_at, {keys}},
                             {op.inputs[2], p.v_at, {values, turns}},
                             {alpha, 0, {width(alpha), turns}},
                             {beta, 0, {width(beta), turns}}}))
    return need_whole(op.inputs);
  for (size_t i = 0; i < 3; ++i) limit(op.inputs[i], p.dim);
  end_recurrent(op, {{values, turns}}, p.v_heads / turns / p.k_heads * p.dim);
}

// With fewer groups than ranks, b and c are whole and a rank's heads are of one group.
void Shares::visit_scan(const Op& op) {
  const auto& p = std::get<ScanParams>(op.params);
  const int64_t of_group = p.groups * p.states, inner = p.heads * p.head_dim;
  const bool by_group = p.groups >= ranks_;
  const bool divides = by_group || p.groups == 1 || (ranks_ % p.groups == 0 && p.heads % ranks_ == 0);
  const Section group_section{of_group, by_group ? 1 : 0};
  if (!divides || !request_input_ranges({{op.inputs[0], p.x_at, {inner}},
                                         {op.inputs[1], p.b_at, group_section},
                                         {op.inputs[2], p.c_at, group_section},
                                         {op.inputs[3], 0, {p.heads}}}))
    return need_whole(op.inputs);
  const int64_t together = by_group ? p.heads / p.groups : p.groups == 1 ? 1 : p.heads / ranks_;
  end_recurrent(op, {{inner}}, together * p.head_dim);
}

} // namespace ridge::core
