// If an entry covers several positions, stores only the last key.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_index_store(Lowering& lowering, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  const int64_t k_dim = lowering.program().kv_layers[layer].k_dim, span = lowering.program().kv_layers[layer].span;
  const float* k = lowering.value(op.inputs[0]);
  lowering.add_rows(lowering.slots(op.inputs), {lowering.cache_resource(layer)}, false, k_dim,
                    [=, &kernels = attention_kernels(), &batch = lowering.batch(), &cache = lowering.cache(),
                     type = lowering.config().k_type](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t)
                        if (batch.positions[t] % span == span - 1)
                          kernels.store_key(k + t * k_dim, k_dim, batch.positions[t] / span, type,
                                            cache.keys(layer, batch.streams[t], 0));
                    });
}

} // namespace ridge::kernels::cpu
