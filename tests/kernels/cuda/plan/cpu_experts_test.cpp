// Plans in which the CPU computes some of the experts.
#include "kernels/cuda/plan/cpu_experts.h"
#include "kernels/cuda/plan/planning.h"

using namespace ridge;
using namespace ridge::tests;
using kernels::cuda::CpuExpertLayer;
using kernels::cuda::kNone;
using kernels::cuda::ReceiveExperts;

namespace {

RandomProgram::Shape two_of_many_experts() {
  RandomProgram::Shape shape;
  shape.layers = 3;
  shape.experts = 16;
  shape.used = 2;
  return shape;
}

std::vector<CpuExpertLayer> layers_of(const core::Program& program) {
  return cpu_expert_layers(program, kernels::cuda::make_plan(program, true), kernels::cuda::expert_groups(program));
}

} // namespace

TEST_CASE("CPU experts: as many as make both sides end soonest") {
  // One alone takes 50, the bus 60 for each.
  const kernels::cuda::CpuShare share = kernels::cuda::share_of_cpu({50, 25, 60});
  CHECK(share[0] == 0);
  CHECK(share[1] == 1);
  CHECK(share[2] == 1);
  CHECK(share[3] == 2); // 75 and 60, or 50 and 120
  CHECK(share[4] == 3); // 100 and 60, or 75 and 120
  for (const int n : kernels::cuda::share_of_cpu({5000, 1000, 10})) CHECK(n == 0);
  CHECK(kernels::cuda::share_of_cpu({1, 0, 10})[64] == 64);
}

TEST_CASE("CPU experts: of gated experts, normed where the GPU's product norms") {
  RandomProgram::Shape shape = two_of_many_experts();
  shape.expert_bias = true;
  const Setting setting(shape);
  const std::vector<CpuExpertLayer> layers = layers_of(setting.model.program);
  REQUIRE(layers.size() == 3);
  for (const CpuExpertLayer& layer : layers) {
    CHECK(layer.layer.norm != kNone);
    CHECK(layer.layer.down_bias != kNone);
    CHECK(setting.model.program.values[layer.out].width == 2 * shape.width);
  }
  core::Program adapted = setting.model.program;
  adapted.adapters.push_back({});
  CHECK(layers_of(adapted).empty());
}

TEST_CASE("CPU experts: steps of few tokens ask for them at the choice and take them after the last product") {
  Setting setting(two_of_many_experts());
  setting.options.experts_on_host = true;
  CHECK(setting.plan(1).messages == 0);
  setting.cpu_experts = layers_of(setting.model.program);
  for (const int64_t tokens : {1, 2, 8}) {
    const BatchPlan plan = setting.plan(tokens, tokens);
    CHECK(plan.messages == 3);
    REQUIRE(count<ReceiveExperts>(plan) == 3);
    for (const FetchExperts& fetch : all_of<FetchExperts>(plan)) CHECK(fetch.x != kNone);
    for (size_t i = 0; i + 1 < plan.calls.size(); ++i) {
      const auto* received = plan.calls[i].get<ReceiveExperts>();
      if (!received) continue;
      CHECK(received->rows == 2 * tokens);
      CHECK_FALSE(has_dataflow_input(plan.calls[i + 1])); // else it would read the product's values
      const auto before = matrices_of(plan.calls[i - 1]);
      REQUIRE(before.size() == 1);
      CHECK(before[0]->parts[0].out == received->out);
    }
  }
  const BatchPlan many = setting.plan(9, 1);
  CHECK(many.messages == 0);
  CHECK(count<ReceiveExperts>(many) == 0);
}
