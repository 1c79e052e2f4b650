#include "kernels/cuda/plan/batch_planning.h"
#include "kernels/cuda/plan/folded_routers.h"
#include "kernels/cuda/plan/packed_adapters.h"
#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

// Same input, different formats (q, k, v).
bool are_siblings(const Step& a, const Step& b) {
  const auto plain = [](const MatrixStep* m) { return m && m->ids == kNone && !m->glu && m->residual == kNone; };
  const MatrixStep *first = a.matrix(), *second = b.matrix();
  return plain(first) && plain(second) && first->x == second->x && first->norm == second->norm;
}

bool attends(const Step& step) {
  const auto* heads = step.get<HeadsStep>();
  return heads ? heads->attention != nullptr : step.is_op(core::OpKind::attention);
}

std::vector<bool> find_siblings(const std::vector<Step>& steps) {
  std::vector<bool> follows(steps.size());
  size_t matrices = 0;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (const MatrixStep* m = steps[i].matrix()) matrices += m->parts.size();
    follows[i] = are_siblings(steps[i], steps[i + 1]) && matrices + steps[i + 1].matrix()->parts.size() <= kMaxSegments;
    if (!follows[i]) matrices = 0;
  }
  return follows;
}

std::optional<ProductKernel> forced_way(const PlanInputs& in, const Plan& plan, const std::vector<int32_t>& steps,
                                        int64_t rows) {
  if (rows <= kDataflowTokens &&
      std::ranges::any_of(steps, [&](int32_t step) { return plan.steps[step].matrix()->has_changes(); }))
    return ProductKernel::matvec;
  if (in.forced.empty()) return std::nullopt;
  auto found = in.forced.find("");
  if (found == in.forced.end()) found = in.forced.find(name_of_products(in.program, plan, steps));
  return found == in.forced.end() ? std::nullopt : std::optional(found->second);
}

} // namespace

bool sees_ahead(const core::AttentionParams& params, const PlanShape& shape) {
  return !params.causal || (shape.has_blocks && params.block_ahead);
}

Planning::Planning(const PlanInputs& inputs, const Plan& steps_of, const PlanShape& of)
    : in(inputs), plan(steps_of), shape(of), steps(steps_of.steps),
      attention(&steps_of == inputs.adapted ? inputs.adapted_attention : inputs.attention),
      sibling_follows(find_siblings(steps)), ways(steps.size(), ProductKernel::matvec) {
  if (in.overlap && in.dataflow_sync && shape.tokens <= kDataflowTokens) {
    dataflow_tokens = shape.tokens;
    const auto folds = [&](const Step& step) {
      return folded_router(static_cast<int32_t>(&step - steps.data())).has_value();
    };
    // Kernels that follow one another have all values; only a folded router's blocks wait for others.
    if (!overlaps() && std::ranges::none_of(steps, folds)) dataflow_tokens = 0;
  }
  if (shape.tokens == 1 && shape.outputs == 1) find_gathered();
  choose_ways();
}

// Values that only the following gather reads; the gathered value has separate memory.
void Planning::find_gathered() {
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const Step& next = steps[i + 1];
    if (!next.is_op(core::OpKind::gather)) continue;
    const ValueId from = next.inputs[0];
    if (has_one_reader(in.program, steps, from) && std::ranges::count(steps[i].outputs, from) > 0)
      gathered[from] = next.outputs[0];
  }
}

bool Planning::gathers(int32_t step) const {
  return std::ranges::any_of(steps[step].outputs, [&](ValueId id) { return gathered.contains(id); });
}

std::optional<RouterCut> Planning::folded_router(int32_t step) const {
  if (step >= std::ssize(steps) || !steps[step].folded || dataflow_tokens == 0 || !folds_routers(in.config, in.limits))
    return std::nullopt;
  const MatrixStep& router = *steps[step].matrix();
  return cut_router(in.limits, desc(*steps[step - 1].matrix(), shape.tokens), first_weight(router).rows,
                    width(router.x));
}

const CpuExpertLayer* Planning::cpu_experts(ValueId ids) const {
  const auto found = std::ranges::find(in.cpu_experts, ids, &CpuExpertLayer::ids);
  return found == in.cpu_experts.end() || rows_of(found->x) > core::kMostMailedRows ||
                 rows_of(found->x) * width(ids) > core::kMostMailedExperts
             ? nullptr
             : &*found;
}

bool Planning::reads_cpu_experts(const Step& step) const {
  return std::ranges::any_of(
      in.cpu_experts, [&](const CpuExpertLayer& layer) { return step.has_input(layer.out) && cpu_experts(layer.ids); });
}

bool Planning::is_absorbed(int32_t step) const {
  return folded_router(step) || (steps[step].inputs.size() == 1 && gathered.contains(steps[step].inputs[0]));
}

void Planning::choose_ways() {
  std::map<ValueId, std::vector<int32_t>> of_experts;
  std::vector<int32_t> siblings;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (!step.matrix() || !has_rows(step)) continue;
    const auto at = static_cast<int32_t>(i);
    if (const ValueId ids = step.matrix()->ids; ids != kNone) {
      of_experts[ids].push_back(at);
      continue;
    }
    siblings.push_back(at);
    if (!sibling_follows[i]) choose_way(std::exchange(siblings, {}));
  }
  for (const auto& [ids, group] : of_experts) choose_way(group);
}

void Planning::choose_way(const std::vector<int32_t>& group) {
  ProductGroup question{.dataflow = dataflow_tokens > 0};
  for (const int32_t step : group) question.products.push_back(steps[step].matrix());
  const MatrixStep& first = *question.products[0];
  question.rows = rows_of(first.x) * first.used;
  question.after_attention = group[0] > 0 && attends(steps[group[0] - 1]);
  ProductChoice choice = choose(in, question, forced_way(in, plan, group, question.rows));
  for (const int32_t step : group) ways[step] = choice.way;
  products.push_back({group, std::move(choice)});
}

ProductKernel Planning::way_of_experts(ValueId ids) const {
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].matrix() && steps[i].matrix()->ids == ids) return ways[i];
  return ProductKernel::matvec;
}

const MatrixStep* Planning::next_matrix(int32_t step, ValueId x) const {
  if (step + 1 == std::ssize(steps)) return nullptr;
  const MatrixStep* next = steps[step + 1].matrix();
  return next && next->x == x ? next : nullptr;
}

bool Planning::only_next_reads(int32_t step, ValueId x) const {
  const MatrixStep* next = next_matrix(step, x);
  return next && next->norm == kNone && next->ids == kNone && !in.config.observer &&
         has_one_reader(in.program, steps, x);
}

// One or two rows: the blocks of a product pass A x by dataflow. More: prompt products.
bool Planning::can_adapt() const {
  if (!overlaps() || !in.dataflow_sync || in.config.exact || in.config.observer) return false;
  int64_t columns = 0; // of siblings
  for (size_t i = 0; i < steps.size(); ++i) {
    const MatrixStep* m = steps[i].matrix();
    if (!m || !has_rows(steps[i])) continue;
    const int64_t rows = rows_of(m->x);
    if (rows <= kDataflowTokens) {
      if (m->has_changes() && !cut_adapted(in.limits, desc(*m, rows))) return false;
      continue;
    }
    columns += desc(*m, rows).padded_ranks();
    if (m->has_changes() && (!adapts_prompts(in.config, in.limits) || ways[i] != ProductKernel::prompt ||
                             first_weight(*m).cols % kTileColumns != 0 || columns > kMaxAdapterColumns))
      return false;
    if (!sibling_follows[i]) columns = 0;
  }
  return true;
}

namespace {

BatchPlan finished(Planning planning) {
  Calls calls = emit_calls(planning);
  run_passes(planning, calls);
  const auto asks = [](const KernelCall& call) {
    return call.get<FetchExperts>() && call.get<FetchExperts>()->x != kNone;
  };
  const int64_t messages = std::ranges::count_if(calls, asks);
  return {planning.shape,   planning.dataflow_tokens,     planning.plan.dataflow_values,
          std::move(calls), std::move(planning.products), false,
          messages};
}

} // namespace

BatchPlan plan_for(const PlanInputs& inputs, const PlanShape& shape) {
  if (inputs.adapted && (shape.tokens <= kDataflowTokens || shape.tokens > kGraphTokens))
    if (Planning adapted(inputs, *inputs.adapted, shape); adapted.can_adapt()) {
      BatchPlan plan = finished(std::move(adapted));
      plan.adapted = true;
      return plan;
    }
  return finished(Planning(inputs, inputs.plan, shape));
}

} // namespace ridge::kernels::cuda
