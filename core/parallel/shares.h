// Decides which values are divided among ranks (shard.h).
#pragma once

#include "core/parallel/shard.h"

#include <map>
#include <set>
#include <vector>

namespace ridge::core {

enum class Form : uint8_t {
  whole, // on every rank
  part,  // each rank has some units
  term,  // the value is the sum over ranks
};

// A range of a value that repeats its group's units; a rank has its own units in each repeat. 0 repeats: the whole
// range.
struct Section {
  int64_t width;
  int64_t repeats = 1;
  bool operator==(const Section&) const = default;
};
using Sections = std::vector<Section>; // consecutive

// A value's form where an op uses it. All values of a group are cut alike. Most have one section; the input of a delta
// rule has sections for the heads of q, k and v.
struct ValueForm {
  Form form = Form::whole;
  int32_t group = -1;     // of a part, or of the part behind a term; -1: none
  Sections sections = {}; // of a part
  bool is_plain() const { return sections.size() == 1 && sections[0].repeats == 1; }
};

class Shares {
 public:
  Shares(const Program& program, int ranks, const BlockWeights& block_weights);

  struct OpForms {
    std::vector<ValueForm> inputs, outputs;
    std::vector<ValueId> summed; // terms needed as sums
    // A norm of whole rows gathers its input and continues with parts of its result.
    bool joins = false;
  };
  const OpForms& of(size_t op) const { return forms_[op]; }
  int64_t units(const ValueForm& value) const { return units_[root(value.group)]; }
  // 0: every rank has the whole cache.
  int64_t units_of_cache(int32_t layer) const { return caches_[layer] < 0 ? 0 : units_[root(caches_[layer])]; }
  const ValueForm& final_form(ValueId id) const { return values_[id]; } // after the last op

 private:
  void walk();
  bool prepare_another_walk();
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
  void limit(ValueId part, int64_t granule); // units are whole granules
  void break_group(int32_t group) { broken_[root(group)] = true; }
  void need_whole(ValueId id);
  void need_whole(const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) need_whole(id);
  }
  bool need_part(ValueId id);
  void need_plain(ValueId part);
  bool request_sections(ValueId part, const Sections& sections);
  void match_sections(ValueId part_a, ValueId part_b);
  void start_part(ValueId out, int64_t repeats, int64_t granule);
  void follow(ValueId out, ValueId part, int64_t granule);

  // The range of a value that a recurrent op reads.
  struct InputRange {
    ValueId value;
    int64_t first;
    Section section;
  };
  bool request_input_ranges(std::vector<InputRange> stretches);
  void end_recurrent(const Op& op, const Sections& sections, int64_t granule);

  const Program& program_;
  const int ranks_;
  const BlockWeights& block_weights_;
  // Learned by earlier walks: values to keep whole, and sections that later ops want.
  std::set<ValueId> kept_whole_;
  std::map<ValueId, Sections> wanted_;
  bool learned_ = false; // this walk changed wanted_
  bool joins_ = false;   // of the visited op
  std::vector<ValueForm> values_;
  std::vector<int32_t> caches_; // by layer: group of its heads, -1: none
  std::vector<OpForms> forms_;
  std::vector<int32_t> parents_; // union-find
  std::vector<int64_t> units_;   // by root
  std::vector<bool> broken_;     // by root: an op needs the whole
  std::vector<bool> recurrent_;  // by root: heads with a state
};

} // namespace ridge::core
