#include "support/naive.h"

#include "core/half.h"

#include <algorithm>
#include <cmath>

namespace ridge::tests {
namespace {

double as_half(double value) { return core::f32_from_f16(core::f16_from_f32(static_cast<float>(value))); }

} // namespace

Naive::Row stored(Naive::Row row, core::KvType type) {
  if (type == core::KvType::f16)
    for (double& e : row) e = as_half(e);
  if (type == core::KvType::q8_0)
    for (size_t first = 0; first < row.size(); first += 32) {
      double largest = 0;
      for (size_t i = first; i < first + 32; ++i) largest = std::max(largest, std::abs(row[i]));
      for (size_t i = first; i < first + 32 && largest > 0; ++i)
        row[i] = std::nearbyint(row[i] / largest * 127) * as_half(largest / 127);
    }
  return row;
}

void naive_kv_store(Naive& naive, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  for (size_t t = 0; t < naive.value(op.inputs[0]).size(); ++t) {
    std::vector<Naive::Cached>& history = naive.history(layer, naive.stream(t));
    history.resize(naive.batch().positions[t]); // rewinds
    history.push_back({stored(naive.in(op, 0, t), naive.k_type()), stored(naive.in(op, 1, t), naive.v_type())});
  }
}

} // namespace ridge::tests
