#include "support/naive.h"

namespace ridge::tests {

void naive_index_store(Naive& naive, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  const int64_t span = naive.program().kv_layers[layer].span;
  for (size_t t = 0; t < naive.value(op.inputs[0]).size(); ++t) {
    std::vector<Naive::Cached>& history = naive.history(layer, naive.stream(t));
    const int64_t position = naive.batch().positions[t];
    history.resize(position / span); // rewinds
    if (position % span == span - 1) history.push_back({stored(naive.in(op, 0, t), naive.k_type()), {}});
  }
}

} // namespace ridge::tests
