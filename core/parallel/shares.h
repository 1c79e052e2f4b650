// Which values of a Program can be shared out to ranks, and how finely (shard.h).
#pragma once

#include "core/parallel/shard.h"

#include <map>
#include <set>
#include <vector>

namespace ridge::core {

enum class Form : uint8_t {
  whole, // every rank has all of it
  part,  // a rank has some of its units
  term,  // every rank has as many elements; their sum over all ranks is the value
};

// A stretch of a value that consists of `repeats` times as many units as its group has: a rank has its units of each
// repeat. 0 repeats: every rank has the whole stretch.
struct Section {
  int64_t width;
  int64_t repeats = 1;
  bool operator==(const Section&) const = default;
};
using Sections = std::vector<Section>; // one behind the other

// A value's form where an op reads or writes it. Values of one group are cut at the same places: a rank has the same
// units of each. Most are one section. The input of a delta rule is several: heads of q, of k, and of v.
struct ValueForm {
  Form form = Form::whole;
  int32_t group = -1;     // of a part; of a term, that of the part it is made of, or -1
  Sections sections = {}; // of a part
  bool is_plain() const { return sections.size() == 1 && sections[0].repeats == 1; }
};

class Shares {
 public:
  Shares(const Program& program, int ranks, const BlockWeights& block_weights);

  struct OpForms {
    std::vector<ValueForm> inputs, outputs;
    std::vector<ValueId> summed; // inputs that are terms, and that the op needs the sum of
    // A norm of whole rows of which ranks have parts: they are joined in front of it, and behind it each goes on with
    // its own.
    bool joins = false;
  };
  const OpForms& of(size_t op) const { return forms_[op]; }
  int64_t units(const ValueForm& value) const { return units_[root(value.group)]; }
  // The units of a cache; 0: every rank has all of it.
  int64_t units_of_cache(int32_t layer) const { return caches_[layer] < 0 ? 0 : units_[root(caches_[layer])]; }
  const ValueForm& final_form(ValueId id) const { return values_[id]; } // behind the last op

 private:
  void walk();
  bool learn();
  void visit(const Op& op);
  void visit_linear(const Op& op);
  void visit_expert_linear(const Op& op);
  void visit_norm(const Op& op);
  void visit_elements(const Op& op);
  void visit_glu(const Op& op);
  void visit_add(const Op& op);
  void visit_adapter_scale(const Op& op);
  void visit_kv_store(const Op& op);
  void visit_attention(const Op& op);
  void visit_latent_attention(const Op& op);
  void visit_sum(const Op& op);
  void visit_conv1d(const Op& op);
  void visit_delta_rule(const Op& op);
  void visit_scan(const Op& op);

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
  bool need_part(ValueId id);
  void need_plain(ValueId part);
  bool want(ValueId part, const Sections& sections);
  void agree(ValueId part_a, ValueId part_b);
  void start_part(ValueId out, int64_t repeats, int64_t granule);
  void follow(ValueId out, ValueId part, int64_t granule);

  // Where in its value an input of a recurrent op lies.
  struct Stretch {
    ValueId value;
    int64_t first;
    Section section;
  };
  bool want_stretches(std::vector<Stretch> stretches);
  void end_recurrent(const Op& op, const Sections& sections, int64_t granule);

  const Program& program_;
  const int ranks_;
  const BlockWeights& block_weights_;
  // What walks have found: values that are not shareable, and those that are to be cut into other sections than they
  // would be where they begin.
  std::set<ValueId> kept_whole_;
  std::map<ValueId, Sections> wanted_;
  bool learned_ = false; // what is wanted, in this walk
  bool joins_ = false;   // the op that is visited
  std::vector<ValueForm> values_;
  std::vector<int32_t> caches_; // by layer: the group of its heads, -1: none
  std::vector<OpForms> forms_;
  std::vector<int32_t> parents_; // groups that are one have one root
  std::vector<int64_t> units_;   // by root
  std::vector<bool> broken_;     // by root: something needs the whole of a part
  std::vector<bool> recurrent_;  // by root: heads with a state
};

} // namespace ridge::core
