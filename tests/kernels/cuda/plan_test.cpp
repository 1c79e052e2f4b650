// Which values go from one running kernel to the next, without a GPU.
#include "kernels/cuda/executor/plan.h"

#include "support/random_program.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using kernels::cuda::Plan;
using kernels::cuda::Step;

namespace {

bool hands_over(const Step& step) {
  return (step.kind == Step::Kind::matrix && step.matrix.ids == kernels::cuda::kNone) ||
         (step.kind == Step::Kind::heads && step.heads.attention);
}

// What makes it safe: see Planner::hand_over.
void check_rules(const core::Program& program, const Plan& plan) {
  std::vector<int> writer(program.values.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    CAPTURE(i);
    if (step.handed_over) {
      CHECK(hands_over(step));
      int first_writer = static_cast<int>(i);
      for (const core::ValueId id : step.inputs) {
        CHECK(plan.handed_over[id]);
        if (step.kind == Step::Kind::heads || step.matrix.x == id) first_writer = std::min(first_writer, writer[id]);
      }
      for (size_t between = first_writer + 1; between < i; ++between) CHECK(plan.steps[between].handed_over);
    }
    for (const core::ValueId id : step.outputs) {
      writer[id] = static_cast<int>(i);
      if (plan.handed_over[id]) CHECK(hands_over(step));
    }
  }
  CHECK_FALSE(plan.handed_over[program.result()]);
}

int64_t count_handed_over(const Plan& plan) {
  return std::ranges::count_if(plan.steps, [](const Step& step) { return step.handed_over; });
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
  CHECK(count_handed_over(plan) >= 3 + 2 * 5 + 3);
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
      if (step.kind == Step::Kind::matrix && step.matrix.ids != kernels::cuda::kNone) CHECK_FALSE(step.handed_over);
  }
}
