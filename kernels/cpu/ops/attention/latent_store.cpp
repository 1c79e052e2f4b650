// A latent key is c, then its rotated part.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_latent_store(Lowering& lowering, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  const core::KvLayer kv = lowering.program().kv_layers[layer];
  const int64_t c_dim = kv.v_dim, r_dim = kv.k_dim - kv.v_dim;
  const float *c = lowering.value(op.inputs[0]), *r = lowering.value(op.inputs[1]);
  const core::KvType type = lowering.config().k_type;
  lowering.add_rows(lowering.slots(op.inputs), {lowering.cache_resource(layer)}, false, kv.k_dim,
                    [=, &kernels = attention_kernels(), &batch = lowering.batch(),
                     &cache = lowering.cache()](int64_t first, int64_t last) {
                      std::vector<float> key(kv.k_dim);
                      for (int64_t t = first; t < last; ++t) {
                        std::copy_n(c + t * c_dim, c_dim, key.begin());
                        std::copy_n(r + t * r_dim, r_dim, key.begin() + c_dim);
                        kernels.store_key(key.data(), kv.k_dim, cache.rows(layer).row_of(batch.positions[t]), type,
                                          cache.keys(layer, batch.streams[t], 0));
                      }
                    });
}

} // namespace ridge::kernels::cpu
