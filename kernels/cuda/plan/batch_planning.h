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
  std::vector<bool> sibling_follows; // by step: the next step is a product with the same input and kernel
  std::vector<ProductKernel> ways;   // by step
  std::vector<PlannedProducts> products;
  // The gather of one token copies nothing: the step before it writes the gather's output instead of its input.
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
  // Null if the CPU computes none of these experts in this batch.
  const CpuExpertLayer* cpu_experts(ValueId ids) const;
  // The CPU's results arrive after the products' own.
  bool reads_cpu_experts(const Step& step) const;
  // How the preceding product computes this router and the next `route`, if it does.
  std::optional<RouterCut> folded_router(int32_t step) const;
  bool is_absorbed(int32_t step) const; // another step's kernel does its work
  ProductKernel way_of_experts(ValueId ids) const;
  static int expert_tile(ProductKernel way, int64_t slots, int64_t experts, bool of_heads) {
    return way == ProductKernel::wide ? sorted_wide_tile(slots, experts, of_heads) : tile_of(way);
  }

  // The next step's product if it reads x, otherwise null.
  const MatrixStep* next_matrix(int32_t step, ValueId x) const;
  ProductKernel next_way(int32_t step) const { return ways[step + 1]; }
  // Whether only the next step reads x: a product of one matrix for all tokens that does not normalize x.
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
