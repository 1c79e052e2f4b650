// Plans with LoRA adapters inside products.
#include "kernels/cuda/plan/candidates.h"
#include "kernels/cuda/plan/planner.h"

namespace ridge::kernels::cuda {

using core::Op;
using core::OpKind;
using core::ValueId;

// W x + B (scale * (A x)) becomes one product.
void Planner::take_adapters() {
  for_each_op(OpKind::add, [&](int i, const Op& add) {
    const int w = writer(add.inputs[0]), b = writer(add.inputs[1]);
    if (std::get<core::AddParams>(add.params).scale != 1 || !is_plain_dense(w) || !is_plain_dense(b)) return;
    const ValueId scaled = steps_[b].matrix()->x;
    const int scale = writer_for_one(scaled, OpKind::adapter_scale);
    if (scale < 0) return;
    const ValueId small = steps_[scale].op->inputs[0];
    const int a = writer(small);
    if (!is_plain_dense(a) || steps_[a].matrix()->x != steps_[w].matrix()->x || !read_once(add.inputs[0]) ||
        !read_once(add.inputs[1]) || !read_once(small))
      return;
    MatrixStep fused = *steps_[w].matrix();
    fused.parts[0].out = add.outputs[0];
    fused.parts[0].change = {steps_[a].matrix()->parts[0].weight, steps_[b].matrix()->parts[0].weight, steps_[scale].op,
                             small};
    replace(i, std::move(fused), steps_[w].inputs, {w, a, scale, b});
  });
}

// The blocks of one kernel pass A x to each other.
void Planner::pass_small_values() {
  for (const Step& step : steps_)
    if (const MatrixStep* m = step.matrix(); m && m->has_changes()) {
      dataflow_values_[m->change()->small] = true;
      widths_[m->change()->small] = desc_of(program_, *m, 1).padded_ranks();
    }
}

std::optional<Plan> make_adapted_plan(const core::Program& program) {
  if (program.adapters.empty()) return std::nullopt;
  Planner planner(program);
  planner.take_adapters();
  if (!planner.adapts()) return std::nullopt;
  planner.fuse();
  planner.find_dataflow();
  planner.pass_small_values();
  return planner.finish();
}

} // namespace ridge::kernels::cuda
