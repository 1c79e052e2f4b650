// LoRA adapters inside products, without a GPU.
#include "kernels/cuda/plan/packed_adapters.h"
#include "kernels/cuda/plan/planning.h"
#include "kernels/cuda/plan/workspace_plan.h"
#include "support/random_adapters.h"

using namespace ridge;
using namespace ridge::tests;
using kernels::cuda::MatrixStep;
using kernels::cuda::Plan;
using kernels::cuda::Step;

namespace {

int64_t scalings(const BatchPlan& plan) {
  return std::ranges::count_if(all_of<PlainOp>(plan),
                               [](const PlainOp& op) { return op.op->kind == core::OpKind::adapter_scale; });
}

int64_t changes(const BatchPlan& plan) {
  int64_t found = 0;
  for (const KernelCall& call : plan.calls)
    for (const MatrixStep* m : matrices_of(call))
      found += std::ranges::count_if(m->parts, [](const MatrixStep::Part& part) { return part.change.scale; });
  return found;
}

int64_t rows_of(const core::Program& program, const MatrixStep& m) {
  int64_t rows = 0;
  for (const MatrixStep::Part& part : m.parts) rows += program.weights[part.weight].rows;
  return rows;
}

constexpr int64_t kProductsOfLayer = 7;

} // namespace

TEST_CASE("adapted plan: one and two tokens take no more kernels with adapters than without") {
  for (const bool other_values : {false, true})
    for (const bool head_norms : {false, true}) {
      RandomProgram::Shape shape;
      shape.layers = 3;
      shape.head_norms = head_norms;
      if (other_values) shape.value_type = Type::Q6_K, shape.width = 1024; // in pairs
      const Setting plain(shape);
      Setting adapted(shape);
      add_adapters(adapted.model, {16}, Type::F16);
      for (const PlanShape& batch : {PlanShape{1, 1, 16, true}, {1, 0, 16, true}, {2, 2, 16, false}, {2, 1, 1, true}}) {
        CAPTURE(batch.tokens);
        CAPTURE(batch.outputs);
        const BatchPlan plan = adapted.plan(batch), without = plain.plan(batch);
        CHECK(plan.adapted);
        CHECK(kernels_of(plan) == kernels_of(without));
        CHECK(scalings(plan) == 0);
        CHECK(changes(plan) == 3 * kProductsOfLayer + (batch.outputs > 0 ? 1 : 0));
        for (size_t i = 0; i < plan.calls.size(); ++i) {
          CHECK(plan.calls[i].overlap == without.calls[i].overlap);
          CHECK(has_dataflow_input(plan.calls[i]) == has_dataflow_input(without.calls[i]));
        }
      }
    }
}

TEST_CASE("adapted plan: values of A pass between a kernel's blocks, so a product's have memory of their own") {
  Setting setting(one_layer());
  add_adapters(setting.model, {3, 16}, Type::F16);
  const std::optional<Plan> plan = kernels::cuda::make_adapted_plan(setting.model.program);
  REQUIRE(plan);
  const core::Program& program = setting.model.program;
  constexpr int64_t kPadded = 24;
  int64_t parts = 0, packed = 0;
  for (const Step& step : plan->steps)
    if (const MatrixStep* m = step.matrix()) {
      REQUIRE(m->change());
      for (const MatrixStep::Part& part : m->parts)
        CHECK(plan->dataflow_values[part.change.small] == (&part == &m->parts[0]));
      const int64_t rows_of_a = kPadded * std::ssize(m->parts);
      CHECK(plan->widths.at(m->change()->small) == rows_of_a);
      const kernels::cuda::AdapterBytes bytes = kernels::cuda::adapter_bytes(program, *m, false);
      CHECK(bytes.a == rows_of_a * program.weights[m->parts[0].weight].cols * 2);
      CHECK(bytes.b ==
            (m->glu ? program.weights[m->parts[0].weight].rows * rows_of_a : rows_of(program, *m) * kPadded) * 2);
      for (const int64_t each : {bytes.a, bytes.b, bytes.factors, bytes.adapters}) CHECK(each % 16 == 0);
      parts += std::ssize(m->parts);
      packed += bytes.all();
    }
  CHECK(parts == kProductsOfLayer + 1);
  CHECK(kernels::cuda::packed_adapter_bytes(program, &*plan, false) == packed);
  CHECK(kernels::cuda::packed_adapter_bytes(program, nullptr, true) == 0);
}

TEST_CASE("adapted plan: its values take memory of the other plan, but none that is read after a batch") {
  RandomProgram::Shape shape;
  shape.layers = 3;
  Setting setting(shape);
  add_adapters(setting.model, {16}, Type::F16);
  core::Program& program = setting.model.program;
  setting.config.max_batch = 512;
  const Plan plan = kernels::cuda::make_plan(program, true);
  const std::optional<Plan> adapted = kernels::cuda::make_adapted_plan(program);
  REQUIRE(adapted);
  const auto sizes = kernels::cuda::plan_workspace(program, setting.config, plan, setting.limits, &*adapted);
  const auto alone = kernels::cuda::plan_workspace(program, setting.config, *adapted, setting.limits);
  std::vector<int32_t> taken = {plan.buffers.slot_of_value[program.logits]};
  for (size_t i = 0; i < sizes.adapted_slots.size(); ++i) {
    const int32_t slot = sizes.adapted_slots[i];
    CHECK(sizes.adapted.values[i] == (slot < 0 ? alone.values[i] : 0));
    if (slot < 0) continue;
    CHECK(sizes.values[slot] >= alone.values[i]);
    CHECK(std::ranges::count(taken, slot) == 0);
    taken.push_back(slot);
  }
  CHECK(std::ranges::count(sizes.adapted_slots, -1) <= 1); // the logits, which are the other plan's
}

TEST_CASE("adapted plan: prompts take no more kernels with adapters than without, but clear what passes in the last") {
  RandomProgram::Shape shape;
  shape.layers = 3;
  shape.width = 1024;
  shape.value_type = Type::Q6_K; // a sibling
  Setting plain(shape), adapted(shape);
  add_adapters(adapted.model, {16}, Type::F16);
  for (Setting* setting : {&plain, &adapted}) setting->forced[""] = kernels::cuda::ProductKernel::prompt;
  for (const int64_t outputs : {0, 1, 2}) {
    CAPTURE(outputs);
    const BatchPlan plan = adapted.plan({96, outputs, 16, false}), without = plain.plan({96, outputs, 16, false});
    CHECK(plan.adapted);
    CHECK(scalings(plan) == 0);
    std::vector<std::string_view> kernels = kernels_of(plan);
    REQUIRE(kernels[0] == ClearDataflow::kName);
    kernels.erase(kernels.begin());
    CHECK(kernels == kernels_of(without));
  }
  CHECK_FALSE(adapted.plan({96, 3, 16, false}).adapted);
  Setting wide(shape);
  add_adapters(wide.model, {96}, Type::F16); // q, k and v together have too many columns
  wide.forced = adapted.forced;
  CHECK_FALSE(wide.plan({96, 1, 16, false}).adapted);
}

TEST_CASE("adapted plan: larger batches, other kernels, and runs that observe or must be exact take the ops") {
  Setting setting(one_layer());
  add_adapters(setting.model, {16}, Type::F16);
  const auto check_ops = [&](int64_t tokens) {
    const BatchPlan plan = setting.plan(tokens);
    CHECK_FALSE(plan.adapted);
    CHECK(scalings(plan) == kProductsOfLayer + 1);
    CHECK(changes(plan) == 0);
  };
  for (const int64_t tokens : {3, 16, 512}) check_ops(tokens);
  const auto check_with = [&](auto& option, auto value) {
    const auto before = std::exchange(option, value);
    check_ops(1);
    option = before;
    CHECK(setting.plan(1).adapted);
  };
  check_with(setting.limits.shared_per_block, 96 << 10); // a matvec of fewer warps
  check_with(setting.config.exact, true);
  check_with(setting.options.overlap, false);
  check_with(setting.options.dataflow_sync, false);
  check_with(setting.options.fuse, false);
  setting.forced[""] = kernels::cuda::ProductKernel::tiles_8;
  CHECK(count<Matvec>(setting.plan(1)) == count<Matvec>(Setting(one_layer()).plan(1)));
}

TEST_CASE("adapted plan: only matrices with adapters change, and only changes that nothing else reads are taken") {
  Setting setting(one_layer());
  int product = 0;
  add_adapters(setting.model, {8}, Type::F32, [&](const core::Op&) { return product++ == 1; }); // k
  const BatchPlan plan = setting.plan(1);
  CHECK(plan.adapted);
  CHECK(changes(plan) == 1);
  const MatrixStep& m = call_of<Matvec>(plan).product.matrix;
  REQUIRE(m.parts.size() == 3);
  CHECK_FALSE(m.parts[0].change.scale);
  CHECK(m.parts[1].change.scale);
  core::Program& program = setting.model.program;
  program.hidden = m.parts[1].change.small;
  CHECK_FALSE(kernels::cuda::make_adapted_plan(program));
  program.hidden = -1;
  program.adapters.clear();
  CHECK_FALSE(kernels::cuda::make_adapted_plan(program));
}
