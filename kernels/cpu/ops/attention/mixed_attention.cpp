// Attends to recent positions in one cache and entries of another; gathers their keys, which are also values. Item:
// some heads of a token.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_mixed_attention(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::MixedParams>(op.params);
  const core::KvLayer kv = lowering.program().kv_layers[params.layer];
  const int64_t dim = kv.k_dim, span = lowering.program().kv_layers[params.entries].span;
  const float* q = lowering.value(op.inputs[0]);
  const bool chooses = op.inputs[1] != op.inputs[0];
  const auto* chosen = chooses ? reinterpret_cast<const int32_t*>(lowering.value(op.inputs[1])) : nullptr;
  const int64_t most = lowering.info(op.inputs[1]).width;
  const float* sinks = op.weights.empty() ? nullptr : lowering.vector_weight(op.weights[0]).data();
  float* out = lowering.value(op.outputs[0]);
  const int64_t heads_of_item = latent_heads_of_item(params.heads, lowering.threads());
  const int64_t pieces = ceil_div(params.heads, heads_of_item);
  const core::KvType type = lowering.config().k_type;
  const core::AttentionParams all = {params.layer, params.heads, params.scale};
  lowering.schedule().add(
      {lowering.slot(op.inputs[0]), lowering.slot(op.inputs[1]), lowering.cache_resource(params.layer),
       lowering.cache_resource(params.entries)},
      lowering.slots(op.outputs), [&batch = lowering.batch(), pieces] { return batch.rows(false) * pieces; },
      [=, &lowering, &kernels = attention_kernels()](int64_t item, int thread) {
        const int64_t token = item / pieces, head = item % pieces * heads_of_item;
        const int64_t stream = lowering.batch().streams[token], position = lowering.batch().positions[token];
        const int64_t first = params.first_seen(position), rows = position + 1 - first;
        const int32_t* positions = chooses ? chosen + token * most : nullptr;
        const int64_t entries =
            chooses ? (std::find(positions, positions + most, -1) - positions) / span : (position + 1) / span;
        std::vector<std::byte> keys(round_up(rows + entries, kPositionTile) * core::head_bytes(type, dim));
        const core::CacheRows& places = lowering.cache().rows(params.layer);
        const std::byte *near = lowering.cache().keys(params.layer, stream, 0),
                        *far = lowering.cache().keys(params.entries, stream, 0);
        for (int64_t i = 0; i < rows; ++i) kernels.copy_key(near, places.row_of(first + i), keys.data(), i, dim, type);
        for (int64_t i = 0; i < entries; ++i)
          kernels.copy_key(far, chooses ? positions[i * span] / span : i, keys.data(), rows + i, dim, type);
        AttentionTask task = lowering.attention_task(all, thread);
        task.q_dim = dim;
        task.q = q + (token * params.heads + head) * dim;
        task.out = out + (token * params.heads + head) * dim;
        task.tokens = 1;
        task.group = std::min(heads_of_item, params.heads - head);
        task.first_position = rows + entries - 1;
        task.k = keys.data();
        task.sinks = sinks ? sinks + head : nullptr;
        kernels.attend(task);
      });
}

} // namespace ridge::kernels::cpu
