// Gathers chosen keys and values; zeros if none. Item: a KV head of a token.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cstring>

namespace ridge::kernels::cpu {

void lower_sparse_attention(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::AttentionParams>(op.params);
  const core::KvLayer kv = lowering.program().kv_layers[params.layer];
  const float* q = lowering.value(op.inputs[0]);
  const auto* chosen = reinterpret_cast<const int32_t*>(lowering.value(op.inputs[1]));
  const int64_t most = lowering.info(op.inputs[1]).width, group = params.heads / kv.heads;
  float* out = lowering.value(op.outputs[0]);
  const core::KvType k_type = lowering.config().k_type, v_type = lowering.config().v_type;
  lowering.schedule().add(
      {lowering.slot(op.inputs[0]), lowering.slot(op.inputs[1]), lowering.cache_resource(params.layer)},
      lowering.slots(op.outputs), [&batch = lowering.batch(), kv] { return batch.rows(false) * kv.heads; },
      [=, &lowering, &params, &kernels = attention_kernels()](int64_t item, int thread) {
        const int64_t token = item / kv.heads, kv_head = item % kv.heads, head = kv_head * group;
        const int32_t* positions = chosen + token * most;
        const int64_t count = std::find(positions, positions + most, -1) - positions;
        float* y = out + (token * params.heads + head) * kv.v_dim;
        if (count == 0) {
          std::fill_n(y, group * kv.v_dim, 0.0f);
          return;
        }
        const int64_t padded = round_up(count, kPositionTile),
                      value_bytes = core::head_bytes(v_type, round_up(kv.v_dim, 16));
        std::vector<std::byte> keys(padded * core::head_bytes(k_type, kv.k_dim)), values(padded * value_bytes);
        const int64_t stream = lowering.batch().streams[token];
        const std::byte *cached_keys = lowering.cache().keys(params.layer, stream, kv_head),
                        *cached_values = lowering.cache().values(params.layer, stream, kv_head);
        for (int64_t i = 0; i < count; ++i) {
          kernels.copy_key(cached_keys, positions[i], keys.data(), i, kv.k_dim, k_type);
          std::memcpy(values.data() + i * value_bytes, cached_values + positions[i] * value_bytes, value_bytes);
        }
        AttentionTask task = lowering.attention_task(params, thread);
        task.q_dim = kv.k_dim;
        task.q = q + (token * params.heads + head) * kv.k_dim;
        task.out = y;
        task.tokens = 1;
        task.group = group;
        task.first_position = count - 1;
        task.k = keys.data();
        task.v = values.data();
        kernels.attend(task);
      });
}

} // namespace ridge::kernels::cpu
