#include "support/naive.h"

namespace ridge::tests {

void naive_latent_store(Naive& naive, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  for (size_t t = 0; t < naive.value(op.inputs[0]).size(); ++t) {
    Naive::Row key = naive.in(op, 0, t);
    const auto value_end = static_cast<std::ptrdiff_t>(key.size());
    const core::KvLayer& kv = naive.program().kv_layers[layer];
    const Naive::Row& rest = naive.in(op, 1, t);
    if (kv.k_dim > kv.v_dim) key.insert(key.end(), rest.begin(), rest.end());
    key = stored(key, naive.k_type());
    std::vector<Naive::Cached>& history = naive.history(layer, naive.stream(t));
    history.resize(naive.batch().positions[t]); // rewinds
    history.push_back({key, {key.begin(), key.begin() + value_end}});
  }
}

} // namespace ridge::tests
