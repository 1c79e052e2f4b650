// Ops of mixtures of experts: which experts a token goes to, and their matrices, each over the tokens that chose it.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {

void Lowering::route(const core::Op& op) {
  const auto params = std::get<core::RouteParams>(op.params);
  const float* x = value(op.inputs[0]);
  auto* ids = reinterpret_cast<int32_t*>(value(op.outputs[0]));
  float* shares = value(op.outputs[1]);
  add_rows({slot(op.inputs[0])}, {slot(op.outputs[0]), slot(op.outputs[1])}, info(op.inputs[0]).gathered,
           params.experts * params.used, [=](int64_t first, int64_t last) {
             for (int64_t t = first; t < last; ++t) {
               const float* scores = x + t * params.experts;
               const float largest = *std::max_element(scores, scores + params.experts);
               double all = 0, chosen = 0;
               for (int64_t e = 0; e < params.experts; ++e) all += std::exp(static_cast<double>(scores[e]) - largest);
               int32_t* id = ids + t * params.used;
               for (int64_t s = 0; s < params.used; ++s) {
                 // The best expert not yet chosen; NaN scores (broken weights) count as worst, so ids stay distinct.
                 id[s] = -1;
                 for (int32_t e = 0; e < params.experts; ++e)
                   if (std::find(id, id + s, e) == id + s && (id[s] < 0 || scores[e] > scores[id[s]] ||
                                                              (std::isnan(scores[id[s]]) && !std::isnan(scores[e]))))
                     id[s] = e;
                 chosen += std::exp(static_cast<double>(scores[id[s]]) - largest);
               }
               for (int64_t s = 0; s < params.used; ++s)
                 shares[t * params.used + s] = static_cast<float>(
                     std::exp(static_cast<double>(scores[id[s]]) - largest) / (params.normalize ? chosen : all));
             }
           });
}

Lowering::ExpertGroups& Lowering::expert_groups(core::ValueId ids, int64_t experts) {
  auto& made = groups_[ids];
  if (made) return made->groups;
  made = std::make_unique<GroupsOfValue>();
  made->resource = new_resource();
  ExpertGroups& groups = made->groups;
  const auto* id = reinterpret_cast<const int32_t*>(value(ids));
  const bool gathered = info(ids).gathered;
  const int64_t used = info(ids).width;
  const size_t most = (gathered ? config_.max_outputs : config_.max_batch) * used;
  groups.pair.reserve(most);
  groups.token.reserve(most);
  groups.groups.reserve(experts);
  schedule_.add(
      {slot(ids)}, {made->resource}, [] { return 1; },
      [=, this, &groups](int64_t, int) {
        const int64_t pairs = batch_.rows(gathered) * used;
        groups.pair.resize(pairs);
        for (int64_t i = 0; i < pairs; ++i) groups.pair[i] = static_cast<int32_t>(i);
        std::sort(groups.pair.begin(), groups.pair.end(),
                  [&](int32_t a, int32_t b) { return id[a] != id[b] ? id[a] < id[b] : a < b; });
        groups.token.resize(pairs);
        groups.groups.clear();
        for (int64_t i = 0; i < pairs; ++i) {
          groups.token[i] = static_cast<int32_t>(groups.pair[i] / used);
          const int64_t expert = id[groups.pair[i]];
          if (groups.groups.empty() || groups.groups.back().expert != expert)
            groups.groups.push_back({expert, static_cast<size_t>(i), 0});
          ++groups.groups.back().count;
        }
      });
  return groups;
}

void Lowering::expert_linear(const core::Op& op) {
  const core::Weight& weight = program_.weights[op.weights[0]];
  const core::ValueId input = op.inputs[0];
  const ExpertGroups& groups = expert_groups(op.inputs[1], weight.count);
  const int64_t groups_resource = groups_[op.inputs[1]]->resource;
  const bool shared_input = info(input).width == weight.cols; // else every slot has its own
  Linear linear = make_linear(weight);
  linear.x = value(input);
  linear.out = value(op.outputs[0]);
  std::set<int64_t> reads = {slot(input), groups_resource};
  if (wants_codes(weight)) {
    const auto [codes, resource] = quantized(input, weight.cols);
    linear.quantized = codes;
    reads = {resource, groups_resource};
  }
  if (config_.observer)
    schedule_.add(
        {slot(input), groups_resource}, {}, [] { return 1; },
        [=, this, &op, &groups, x = linear.x, cols = weight.cols](int64_t, int) {
          const std::vector<int32_t>& row_of = shared_input ? groups.token : groups.pair;
          std::vector<const float*> rows(row_of.size());
          for (size_t i = 0; i < rows.size(); ++i) rows[i] = x + row_of[i] * cols;
          for (const ExpertGroups::Group& group : groups.groups)
            config_.observer->observe(op, group.expert, std::span(rows).subspan(group.first, group.count));
        });
  // Items are pieces of about 64 KB of one expert's matrix.
  const int64_t panels = ceil_div(weight.rows, kPanelRows);
  const int64_t piece = std::clamp<int64_t>(65536 / (kPanelRows * weight.row_bytes), 1, panels);
  const int64_t pieces = ceil_div(panels, piece);
  schedule_.add(
      reads, {slot(op.outputs[0])}, [=, &groups] { return static_cast<int64_t>(groups.groups.size()) * pieces; },
      [=, this, &groups, &weight](int64_t item, int thread) {
        const ExpertGroups::Group& group = groups.groups[item / pieces];
        const std::span<const int32_t> out(groups.pair.data() + group.first, group.count);
        const std::span<const int32_t> in =
            shared_input ? std::span(groups.token.data() + group.first, group.count) : out;
        Linear expert = linear;
        expert.matrix += group.expert * weight.matrix_bytes();
        const int64_t first = item % pieces * piece * kPanelRows;
        const int64_t last = std::min(first + piece * kPanelRows, weight.rows);
        if (static_cast<int64_t>(group.count) <= kDotTokens) return run_dots(expert, in, out, first, last - first);
        for (int64_t row = first; row < last; row += kPanelRows)
          for (size_t t = 0; t < group.count; t += kTokenBlock) {
            const size_t n = std::min<size_t>(kTokenBlock, group.count - t);
            run_panel(expert, in.subspan(t, n), out.subspan(t, n), row, linear_scratch(thread));
          }
      });
}

void Lowering::expert_sum(const core::Op& op) {
  const int64_t width = info(op.outputs[0]).width, used = info(op.inputs[1]).width;
  const float *x = value(op.inputs[0]), *shares = value(op.inputs[1]);
  float* out = value(op.outputs[0]);
  const VectorKernels& vectors = vector_kernels();
  add_rows({slot(op.inputs[0]), slot(op.inputs[1])}, {slot(op.outputs[0])}, info(op.outputs[0]).gathered, used * width,
           [=, &vectors](int64_t first, int64_t last) {
             for (int64_t t = first; t < last; ++t) {
               std::fill_n(out + t * width, width, 0.0f);
               for (int64_t s = 0; s < used; ++s)
                 vectors.scale_add(x + (t * used + s) * width, shares[t * used + s], width, out + t * width);
             }
           });
}

} // namespace ridge::kernels::cpu
