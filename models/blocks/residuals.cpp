// Kimi K3's weighted mean of saved residual streams.
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::OpKind;
using core::ValueId;

ValueId Builder::keep_residual(std::optional<ValueId> kept, ValueId x, const std::string& name) {
  return kept ? emit(OpKind::concat, name, {*kept, x}, width_of(*kept) + width_of(x)) : x;
}

ValueId Builder::mix_residuals(ValueId kept, ValueId x, const std::string& scores) {
  const int64_t width = width_of(x), count = width_of(kept) / width + 1;
  const ValueId all = keep_residual(kept, x, scores + "_all");
  const ValueId ids = value(scores + "_ids", count, gathered(x), core::ValueKind::i32);
  program_.ops.push_back({OpKind::head_ids, layer_, scores + "_ids", {}, {ids}, {}, {}});
  const core::Weight row = tensor_weight(scores + ".weight", width, 1, 1);
  require_f32(row);
  std::vector<float> rows;
  for (int64_t i = 0; i < count; ++i)
    rows.insert(rows.end(), reinterpret_cast<const float*>(row.data), reinterpret_cast<const float*>(row.data) + width);
  const core::WeightId matrices = constant(scores, rows, count);
  program_.weights[matrices].rows = 1;
  program_.weights[matrices].count = count;
  const ValueId fits = emit(OpKind::expert_linear, scores, {unit_norm(all, scores + "_norm", width), ids}, count,
                            {matrices}, core::ExpertParams{count});
  const ValueId shares = emit(OpKind::softmax, scores + "_shares", {fits}, count);
  return emit(OpKind::expert_sum, scores + "_mean", {all, shares}, width, {}, core::ExpertParams{count});
}

} // namespace ridge::models
