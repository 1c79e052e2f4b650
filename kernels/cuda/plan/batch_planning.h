// What the parts of a batch's planner know: the steps, the batch's shape, and which way each product goes. The calls
// are made step by step (emit_calls.cpp); passes over their list then join calls, hand values on in the form that their
// readers want, and insert the conversions that are left (call_passes.cpp).
#pragma once

#include "kernels/cuda/plan/batch_plan.h"

#include <map>
#include <vector>

namespace ridge::kernels::cuda {

using core::ValueId;

struct Planning {
  Planning(const PlanInputs& inputs, const PlanShape& of);

  const PlanInputs& in;
  const PlanShape& shape;
  const std::vector<Step>& steps;
  int64_t dataflow_tokens = 0;
  std::vector<bool> sibling_follows; // by step: the next one has the same input, and one kernel has room for both
  std::vector<Way> ways;             // by step; of matrices
  std::vector<PlannedProducts> products;
  // Where a gather of one token's row has nothing to do: its input, which is written as its output at once.
  std::map<ValueId, ValueId> gathered;

  bool overlaps() const { return in.overlap && in.limits.overlap; }
  int64_t width(ValueId id) const { return in.program.values[id].width; }
  int64_t rows_of(ValueId id) const { return in.program.values[id].gathered ? shape.outputs : shape.tokens; }
  const core::Weight& weight(core::WeightId id) const { return in.program.weights[id]; }
  const core::Weight& first_weight(const MatrixStep& m) const { return weight(m.parts[0].weight); }
  int32_t slot_of(ValueId id) const { return in.plan.buffers.slot_of_value[id]; }
  bool has_rows(const Step& step) const {
    return shape.outputs > 0 || step.outputs.empty() || !in.program.values[step.outputs[0]].gathered;
  }
  ValueId placed(ValueId id) const {
    const auto found = gathered.find(id);
    return found == gathered.end() ? id : found->second;
  }
  bool gathers(int32_t step) const; // its result goes where the gather behind it would have copied it to
  bool dataflow_input(int32_t step) const { return dataflow_tokens > 0 && steps[step].dataflow_input; }
  // Whether the step is a router whose scores, and the `route` behind it, come with the product in front of it.
  bool folds(int32_t step) const;
  // What the step in front of this one has done.
  bool is_done(int32_t step) const;
  Way way_of_experts(ValueId ids) const;
  // The tokens of a tile of sorted experts.
  static int expert_tile(Way way, int64_t slots, int64_t experts) {
    return way == Way::wide ? sorted_wide_tile(slots, experts) : tile_of(way);
  }

  // The product in the step behind this one, if that is one of this value; and its way.
  const MatrixStep* next_matrix(int32_t step, ValueId x) const;
  Way next_way(int32_t step) const { return ways[step + 1]; }
  // Whether only the product in the step behind this one reads the value, in the form that it is multiplied in.
  bool only_next_reads(int32_t step, ValueId x) const;

 private:
  void choose_ways();
  void choose_way(const std::vector<int32_t>& group);
  void find_gathered();
};

using Calls = std::vector<KernelCall>;

Calls emit_calls(const Planning& planning);
void run_passes(const Planning& planning, Calls& calls);

} // namespace ridge::kernels::cuda
