#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_kv_store(Lowering& lowering, const core::Op& op) {
  const int32_t layer = std::get<core::KvParams>(op.params).layer;
  const core::KvLayer kv = lowering.program().kv_layers[layer];
  const float *k = lowering.value(op.inputs[0]), *v = lowering.value(op.inputs[1]);
  const core::KvType k_type = lowering.config().k_type, v_type = lowering.config().v_type;
  const AttentionKernels& kernels = attention_kernels();
  lowering.add_rows(
      lowering.slots(op.inputs), {lowering.cache_resource(layer)}, false, kv.heads * (kv.k_dim + kv.v_dim),
      [=, &kernels, &batch = lowering.batch(), &cache = lowering.cache()](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t)
          for (int64_t h = 0; h < kv.heads; ++h) {
            const int64_t row = cache.rows(layer).row_of(batch.positions[t]);
            const int64_t stream = batch.streams[t];
            kernels.store_key(k + (t * kv.heads + h) * kv.k_dim, kv.k_dim, row, k_type, cache.keys(layer, stream, h));
            kernels.store_value(v + (t * kv.heads + h) * kv.v_dim, kv.v_dim, row, v_type,
                                cache.values(layer, stream, h));
          }
      });
}

} // namespace ridge::kernels::cpu
