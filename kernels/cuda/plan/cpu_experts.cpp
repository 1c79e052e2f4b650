#include "kernels/cuda/plan/cpu_experts.h"

#include <algorithm>
#include <optional>

namespace ridge::kernels::cuda {
namespace {

using core::Op;
using core::OpKind;

struct Products {
  const Op *gate = nullptr, *up = nullptr, *down = nullptr, *glu = nullptr;
};

std::optional<Products> products_of(const core::Program& program, const ExpertGroup& group) {
  std::vector<const Op*> of_group;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::expert_linear && op.inputs[1] == group.ids) of_group.push_back(&op);
  if (of_group.size() != 3 || group.weights.size() != 3) return std::nullopt;
  const auto writer = [&](core::ValueId id) -> const Op* {
    const auto at = std::ranges::find(of_group, id, [](const Op* op) { return op->outputs[0]; });
    return at == of_group.end() ? nullptr : *at;
  };
  for (const Op& glu : program.ops) {
    if (glu.kind != OpKind::glu || !glu.weights.empty()) continue;
    const Op *gate = writer(glu.inputs[0]), *up = writer(glu.inputs[1]);
    const auto down = std::ranges::find(of_group, glu.outputs[0], [](const Op* op) { return op->inputs[0]; });
    if (!gate || !up || gate == up || down == of_group.end() || gate->inputs[0] != up->inputs[0]) continue;
    return Products{gate, up, *down, &glu};
  }
  return std::nullopt;
}

const MatrixStep* step_with(const Plan& plan, core::WeightId weight) {
  for (const Step& step : plan.steps)
    if (const MatrixStep* m = step.matrix(); m && std::ranges::count(m->parts, weight, &MatrixStep::Part::weight) > 0)
      return m;
  return nullptr;
}

} // namespace

std::vector<CpuExpertLayer> cpu_expert_layers(const core::Program& program, const Plan& plan,
                                              std::span<const ExpertGroup> groups) {
  std::vector<CpuExpertLayer> layers;
  if (!program.adapters.empty()) return layers;
  for (const ExpertGroup& group : groups) {
    const std::optional<Products> of = products_of(program, group);
    if (!of) continue;
    const core::WeightId gate = of->gate->weights[0], up = of->up->weights[0], down = of->down->weights[0];
    const MatrixStep *first = step_with(plan, gate), *second = step_with(plan, up), *last = step_with(plan, down);
    const core::Weight &w = program.weights[gate], &out = program.weights[down];
    if (!first || !second || !last || first->x != second->x || first->norm != second->norm || last->norm != kNone ||
        last->residual != kNone || program.values[first->x].width != w.cols || out.rows != w.cols || w.cols % 4 != 0 ||
        program.values[of->down->outputs[0]].width != last->used * out.rows)
      continue;
    const auto bias = [](const Op* op) { return op->weights.size() > 1 ? op->weights[1] : kNone; };
    layers.push_back({group.ids,
                      first->x,
                      of->down->outputs[0],
                      {gate, up, down, bias(of->gate), bias(of->up), bias(of->down),
                       std::get<core::ActivationParams>(of->glu->params), first->norm, first->norm_epsilon}});
  }
  return layers;
}

CpuShare share_of_cpu(const ExpertTimes& times) {
  CpuShare share = {};
  for (int missing = 1; missing <= core::kMostMailedExperts; ++missing) {
    double best = missing * times.copy;
    for (int on_cpu = 1; on_cpu <= missing; ++on_cpu) {
      const double both = std::max(times.on_cpu(on_cpu), (missing - on_cpu) * times.copy);
      if (both >= best) continue;
      best = both;
      share[missing] = static_cast<uint8_t>(on_cpu);
    }
  }
  return share;
}

} // namespace ridge::kernels::cuda
