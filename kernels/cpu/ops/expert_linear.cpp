#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {
namespace {

constexpr int64_t kPieceBytes = 65536;

void observe_inputs(Lowering& lowering, const core::Op& op, const ExpertGroups& groups,
                    const std::vector<int32_t>& row_of, const float* x, int64_t cols) {
  lowering.schedule().add(
      {lowering.slot(op.inputs[0]), groups.resource}, {}, [] { return 1; },
      [=, &op, &groups, &row_of, observer = lowering.config().observer](int64_t, int) {
        std::vector<const float*> rows(row_of.size());
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = x + row_of[i] * cols;
        for (const ExpertGroups::Group& group : groups.groups)
          observer->observe(op, group.expert, std::span(rows).subspan(group.first, group.count));
      });
}

} // namespace

void lower_expert_linear(Lowering& lowering, const core::Op& op) {
  const core::Weight& weight = lowering.weight(op.weights[0]);
  const core::ValueId input = op.inputs[0];
  const ExpertGroups& groups = lowering.expert_groups(op.inputs[1], weight.count);
  const std::vector<int32_t>& row_of = lowering.info(input).width == weight.cols ? groups.token : groups.pair;
  Linear linear = lowering.make_linear(weight, input);
  linear.x = lowering.value(input);
  linear.out = lowering.value(op.outputs[0]);
  if (op.weights.size() > 1) linear.bias = lowering.vector_weight(op.weights[1]).data();
  Lowering::Resources reads = {lowering.slot(input), groups.resource};
  if (lowering.wants_codes(weight)) {
    const auto [codes, tiles, resource] = lowering.quantized(input, weight.cols);
    linear.quantized = codes;
    reads = {resource, groups.resource};
  }
  if (lowering.config().observer) observe_inputs(lowering, op, groups, row_of, linear.x, weight.cols);

  const int64_t panels = linear.panels();
  const int64_t piece = std::clamp<int64_t>(kPieceBytes / (kPanelRows * weight.row_bytes), 1, panels);
  const int64_t pieces = ceil_div(panels, piece);
  lowering.schedule().add(
      reads, lowering.slots(op.outputs), [=, &groups] { return static_cast<int64_t>(groups.groups.size()) * pieces; },
      [=, &lowering, &groups, &row_of, &weight](int64_t item, int thread) {
        const ExpertGroups::Group& group = groups.groups[item / pieces];
        const auto out = std::span(groups.pair).subspan(group.first, group.count);
        const auto in = std::span(row_of).subspan(group.first, group.count);
        Linear expert = linear;
        expert.matrix = weight.row(group.expert * weight.rows);
        if (expert.bias) expert.bias += group.expert * weight.rows;
        const int64_t first = item % pieces * piece, last = std::min(first + piece, panels);
        if (static_cast<int64_t>(group.count) <= kMaxDotTokens) {
          const int64_t first_row = expert.panel(first).first;
          return run_dots(expert, in, out, first_row, std::min(last * kPanelRows, weight.rows) - first_row);
        }
        for (int64_t panel = first; panel < last; ++panel)
          for (size_t t = 0; t < group.count; t += kTokenBlock) {
            const size_t n = std::min<size_t>(kTokenBlock, group.count - t);
            run_panel(expert, in.subspan(t, n), out.subspan(t, n), panel, lowering.linear_scratch(thread));
          }
      });
}

} // namespace ridge::kernels::cpu
