// Kimi K3's weighted mean of saved residual streams.
#include "models/blocks/blocks.h"

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;

ValueId keep_residual(Builder& b, std::optional<ValueId> kept, ValueId x, const std::string& name) {
  return kept ? b.emit(OpKind::concat, name, {*kept, x}, b.width_of(*kept) + b.width_of(x)) : x;
}

ValueId mix_residuals(Builder& b, ValueId kept, ValueId x, const std::string& scores) {
  const int64_t width = b.width_of(x), count = b.width_of(kept) / width + 1;
  const ValueId all = keep_residual(b, kept, x, scores + "_all");
  const ValueId ids = b.value(scores + "_ids", count, b.gathered(x), core::ValueKind::i32);
  b.program().ops.push_back({OpKind::head_ids, b.layer_index(), scores + "_ids", {}, {ids}, {}, {}});
  const core::Weight row = b.tensor_weight(scores + ".weight", width, 1, 1);
  b.require_f32(row);
  std::vector<float> rows;
  for (int64_t i = 0; i < count; ++i)
    rows.insert(rows.end(), reinterpret_cast<const float*>(row.data), reinterpret_cast<const float*>(row.data) + width);
  const core::WeightId matrices = b.constant(scores, rows, count);
  b.program().weights[matrices].rows = 1;
  b.program().weights[matrices].count = count;
  const ValueId fits = b.emit(OpKind::expert_linear, scores, {b.unit_norm(all, scores + "_norm", width), ids}, count,
                              {matrices}, core::ExpertParams{count});
  const ValueId shares = b.emit(OpKind::softmax, scores + "_shares", {fits}, count);
  return b.emit(OpKind::expert_sum, scores + "_mean", {all, shares}, width, {}, core::ExpertParams{count});
}

} // namespace ridge::models::blocks
