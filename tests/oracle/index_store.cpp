// index_store: as kv_store, keys alone.
#include "support/naive.h"

namespace ridge::tests {

void naive_index_store(Naive& naive, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  for (size_t t = 0; t < naive.value(op.inputs[0]).size(); ++t) {
    std::vector<Naive::Cached>& history = naive.history(layer, naive.stream(t));
    history.resize(naive.batch().positions[t]); // what lay behind is overwritten
    history.push_back({stored(naive.in(op, 0, t), naive.k_type()), {}});
  }
}

} // namespace ridge::tests
