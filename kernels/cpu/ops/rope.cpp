// An initial step computes the angles.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_rope(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::RopeParams>(op.params);
  const core::RopeTable& table = lowering.program().rope_tables[params.table];
  const RopeAngles& angles = lowering.angles(params.table);
  const int64_t heads = params.heads, head_dim = params.head_dim, width = heads * head_dim;
  const auto pairs = static_cast<int64_t>(table.inverse_frequency.size());
  const float *x = lowering.value(op.inputs[0]), *cos_sin = angles.cos_sin.as<float>();
  float* out = lowering.value(op.outputs[0]);
  const auto rotate =
      table.style == core::RopeStyle::adjacent ? vector_kernels().rope_adjacent : vector_kernels().rope_split;
  lowering.add_rows({lowering.slot(op.inputs[0]), angles.resource}, lowering.slots(op.outputs), false, width,
                    [=](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t)
                        for (int64_t h = 0; h < heads; ++h)
                          rotate(x + t * width + h * head_dim, cos_sin + 2 * pairs * t, pairs, head_dim,
                                 out + t * width + h * head_dim);
                    });
}

} // namespace ridge::kernels::cpu
