// Which values go from one running kernel to the next, without a GPU.
#include "kernels/cuda/plan/plan.h"

#include "support/random_program.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using kernels::cuda::Plan;
using kernels::cuda::Step;

namespace {

bool passes_by_dataflow(const Step& step) {
  return (step.kind == Step::Kind::matrix && step.matrix.ids == kernels::cuda::kNone) ||
         (step.kind == Step::Kind::heads && step.heads.attention);
}

// What makes it safe: see Planner::find_dataflow.
void check_rules(const core::Program& program, const Plan& plan) {
  std::vector<int> writer(program.values.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    CAPTURE(i);
    if (step.dataflow_input) {
      CHECK(passes_by_dataflow(step));
      int first_writer = static_cast<int>(i);
      for (const core::ValueId id : step.inputs) {
        CHECK(plan.dataflow_values[id]);
        if (step.kind == Step::Kind::heads || step.matrix.x == id) first_writer = std::min(first_writer, writer[id]);
      }
      for (size_t between = first_writer + 1; between < i; ++between) CHECK(plan.steps[between].dataflow_input);
    }
    for (const core::ValueId id : step.outputs) {
      writer[id] = static_cast<int>(i);
      if (plan.dataflow_values[id]) CHECK(passes_by_dataflow(step));
    }
  }
  CHECK_FALSE(plan.dataflow_values[program.result()]);
}

int64_t count_dataflow_steps(const Plan& plan) {
  return std::ranges::count_if(plan.steps, [](const Step& step) { return step.dataflow_input; });
}

} // namespace

TEST_CASE("plan: all steps of a layer but the first one's take their input from running kernels") {
  tests::RandomProgram model(1);
  tests::RandomProgram::Shape shape;
  shape.layers = 4;
  model.transformer(shape, quant::Type::Q8_0, quant::Type::Q8_0);
  const Plan plan = kernels::cuda::make_plan(model.program, true);
  check_rules(model.program, plan);
  // q k v, attention, its output, gate and up, down; q k v and the output of the first layer read the embedding.
  CHECK(count_dataflow_steps(plan) >= 3 + 2 * 5 + 3);
}

TEST_CASE("plan: experts and what comes behind other ops wait for their predecessors") {
  tests::RandomProgram model(1);
  tests::RandomProgram::Shape shape;
  shape.experts = 4;
  shape.used = 2;
  model.transformer(shape, quant::Type::Q8_0, quant::Type::Q8_0);
  for (const bool fuse : {true, false}) {
    const Plan plan = kernels::cuda::make_plan(model.program, fuse);
    check_rules(model.program, plan);
    for (const Step& step : plan.steps)
      if (step.kind == Step::Kind::matrix && step.matrix.ids != kernels::cuda::kNone) CHECK_FALSE(step.dataflow_input);
  }
}
