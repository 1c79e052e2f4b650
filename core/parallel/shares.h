// Which values of a Program can be shared out to ranks, and how finely (shard.h).
#pragma once

#include "core/parallel/shard.h"

#include <set>
#include <vector>

namespace ridge::core {

enum class Form : uint8_t {
  whole, // every rank has all of it
  part,  // a rank has some of its units
  term,  // every rank has as many elements; their sum over all ranks is the value
};

// A value's form where an op reads or writes it. Values of one group are cut at the same places: each consists of
// `repeats` times as many units as the group has, and a rank has the same units of each.
struct ValueForm {
  Form form = Form::whole;
  int32_t group = -1; // of a part
  int64_t repeats = 1;
};

class Shares {
 public:
  Shares(const Program& program, int ranks, const BlockWeights& block_weights);

  struct OpForms {
    std::vector<ValueForm> inputs, outputs;
    std::vector<ValueId> summed; // inputs that are terms, and that the op needs the sum of
  };
  const OpForms& of(size_t op) const { return forms_[op]; }
  int64_t units(const ValueForm& value) const { return units_[root(value.group)]; }
  // Of a cache; 0: every rank has all of it.
  int64_t units_of_cache(int32_t layer) const { return caches_[layer] < 0 ? 0 : units_[root(caches_[layer])]; }
  const ValueForm& final_form(ValueId id) const { return values_[id]; } // behind the last op

 private:
  void walk();
  bool keep_broken_whole();
  void visit(const Op& op);
  void visit_linear(const Op& op);
  void visit_expert_linear(const Op& op);
  void visit_norm(const Op& op);
  void visit_elements(const Op& op);
  void visit_glu(const Op& op);
  void visit_add(const Op& op);
  void visit_kv_store(const Op& op);
  void visit_attention(const Op& op);
  void visit_latent_attention(const Op& op);
  void visit_sum(const Op& op);

  int32_t root(int32_t group) const {
    while (parents_[group] != group) group = parents_[group];
    return group;
  }
  bool is(ValueId id, Form form) const { return values_[id].form == form; }
  int64_t width(ValueId id) const { return program_.values[id].width; }
  const Weight& weight(const Op& op, size_t i) const { return program_.weights[op.weights[i]]; }

  int32_t new_group();
  void unite(int32_t group_a, int32_t group_b);
  int64_t columns_together(const Weight& matrix) const;
  void limit(ValueId part, int64_t granule); // units of the part have whole granules
  void break_group(int32_t group) { broken_[root(group)] = true; }
  void need_whole(ValueId id);
  void need_whole(const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) need_whole(id);
  }
  void start_part(ValueId out, int64_t repeats, int64_t granule);
  void follow(ValueId out, ValueId part, int64_t granule);

  const Program& program_;
  const int ranks_;
  const BlockWeights& block_weights_;
  std::set<ValueId> kept_whole_; // what turned out not to be shareable
  std::vector<ValueForm> values_;
  std::vector<int32_t> caches_; // by layer: the group of its heads, -1: none
  std::vector<OpForms> forms_;
  std::vector<int32_t> parents_; // groups that are one have one root
  std::vector<int64_t> units_;   // by root
  std::vector<bool> broken_;     // by root: something needs the whole of a part
};

} // namespace ridge::core
