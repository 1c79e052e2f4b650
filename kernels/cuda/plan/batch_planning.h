// The batch planner: emit_calls.cpp makes calls step by step, call_passes.cpp joins them and inserts conversions.
#pragma once

#include "kernels/cuda/plan/batch_plan.h"

#include <map>
#include <vector>

namespace ridge::kernels::cuda {

using core::ValueId;

struct Planning {
  Planning(const PlanInputs& inputs, const Plan& steps_of, const PlanShape& of);

  const PlanInputs& in;
  const Plan& plan;
  const PlanShape& shape;
  const std::vector<Step>& steps;
  const std::vector<AttentionFit>& attention; // by step
  int64_t dataflow_tokens = 0;
  std::vector<bool> sibling_follows; // shares input and kernel with the next step
  std::vector<ProductKernel> ways;
  std::vector<PlannedProducts> products;
  // One token's gather copies nothing: its input is written as its output.
  std::map<ValueId, ValueId> gathered;

  bool overlaps() const { return in.overlap && in.limits.overlap; }
  int64_t width(ValueId id) const { return in.program.values[id].width; }
  int64_t rows_of(ValueId id) const { return in.program.values[id].gathered ? shape.outputs : shape.tokens; }
  const core::Weight& weight(core::WeightId id) const { return in.program.weights[id]; }
  ProductDesc desc(const MatrixStep& m, int64_t tokens) const { return desc_of(in.program, m, tokens); }
  const core::Weight& first_weight(const MatrixStep& m) const { return weight(m.parts[0].weight); }
  int32_t slot_of(ValueId id) const { return plan.buffers.slot_of_value[id]; }
  bool has_rows(const Step& step) const {
    return shape.outputs > 0 || step.outputs.empty() || !in.program.values[step.outputs[0]].gathered;
  }
  ValueId placed(ValueId id) const {
    const auto found = gathered.find(id);
    return found == gathered.end() ? id : found->second;
  }
  bool gathers(int32_t step) const;
  bool can_adapt() const;
  bool dataflow_input(int32_t step) const {
    return dataflow_tokens > 0 && steps[step].dataflow_input && !reads_cpu_experts(steps[step]);
  }
  // Null: the CPU computes none of these experts in this batch.
  const CpuExpertLayer* cpu_experts(ValueId ids) const;
  bool reads_cpu_experts(const Step& step) const; // their results, which come after the products'
  // Whether the preceding product computes this router and the next `route`.
  std::optional<RouterCut> folded_router(int32_t step) const;
  bool is_absorbed(int32_t step) const;
  ProductKernel way_of_experts(ValueId ids) const;
  static int expert_tile(ProductKernel way, int64_t slots, int64_t experts) {
    return way == ProductKernel::wide ? sorted_wide_tile(slots, experts) : tile_of(way);
  }

  // The next step's product if it reads x, otherwise null.
  const MatrixStep* next_matrix(int32_t step, ValueId x) const;
  ProductKernel next_way(int32_t step) const { return ways[step + 1]; }
  // Whether the next step's product is x's only reader, unnormed and not sorted by expert.
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
