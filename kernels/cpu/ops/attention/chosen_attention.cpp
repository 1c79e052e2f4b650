// Gathers chosen latent keys; zeros if none. Item: some heads of a token.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_chosen_attention(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::AttentionParams>(op.params);
  const core::KvLayer kv = lowering.program().kv_layers[params.layer];
  const float *q_c = lowering.value(op.inputs[0]), *q_r = lowering.value(op.inputs[1]);
  const auto* chosen = reinterpret_cast<const int32_t*>(lowering.value(op.inputs[2]));
  const int64_t most = lowering.info(op.inputs[2]).width;
  const float* sinks = op.weights.empty() ? nullptr : lowering.vector_weight(op.weights[0]).data();
  float* out = lowering.value(op.outputs[0]);
  const int64_t heads_of_item = latent_heads_of_item(params.heads, lowering.threads());
  const int64_t pieces = ceil_div(params.heads, heads_of_item);
  const core::KvType type = lowering.config().k_type;
  lowering.schedule().add(
      {lowering.slot(op.inputs[0]), lowering.slot(op.inputs[1]), lowering.slot(op.inputs[2]),
       lowering.cache_resource(params.layer)},
      lowering.slots(op.outputs), [&batch = lowering.batch(), pieces] { return batch.rows(false) * pieces; },
      [=, &lowering, &params, &kernels = attention_kernels()](int64_t item, int thread) {
        const int64_t token = item / pieces, head = item % pieces * heads_of_item, r_dim = kv.k_dim - kv.v_dim;
        const int32_t* positions = chosen + token * most;
        const int64_t count = std::find(positions, positions + most, -1) - positions;
        if (count == 0) {
          std::fill_n(out + (token * params.heads + head) * kv.v_dim,
                      std::min(heads_of_item, params.heads - head) * kv.v_dim, 0.0f);
          return;
        }
        std::vector<std::byte> keys(round_up(count, kPositionTile) * core::head_bytes(type, kv.k_dim));
        const std::byte* cached = lowering.cache().keys(params.layer, lowering.batch().streams[token], 0);
        for (int64_t i = 0; i < count; ++i) kernels.copy_key(cached, positions[i], keys.data(), i, kv.k_dim, type);
        AttentionTask task = lowering.attention_task(params, thread);
        task.q_dim = kv.v_dim;
        task.q = q_c + (token * params.heads + head) * kv.v_dim;
        task.q_rest = q_r + (token * params.heads + head) * r_dim;
        task.out = out + (token * params.heads + head) * kv.v_dim;
        task.tokens = 1;
        task.group = std::min(heads_of_item, params.heads - head);
        task.first_position = count - 1;
        task.k = keys.data();
        task.sinks = sinks ? sinks + head : nullptr;
        kernels.attend(task);
      });
}

} // namespace ridge::kernels::cpu
