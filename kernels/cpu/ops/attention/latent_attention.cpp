// Item: some heads and a segment.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {

void lower_latent_attention(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::AttentionParams>(op.params);
  const core::KvLayer kv = lowering.program().kv_layers[params.layer];
  const float *q_c = lowering.value(op.inputs[0]), *q_r = lowering.value(op.inputs[1]);
  const float* sinks = op.weights.empty() ? nullptr : lowering.vector_weight(op.weights[0]).data();
  float* out = lowering.value(op.outputs[0]);
  const int64_t heads_of_item = latent_heads_of_item(params.heads, lowering.threads());
  const int64_t pieces = ceil_div(params.heads, heads_of_item);
  lowering.schedule().add(
      {lowering.slot(op.inputs[0]), lowering.slot(op.inputs[1]), lowering.cache_resource(params.layer)},
      lowering.slots(op.outputs),
      [&batch = lowering.batch(), pieces] { return static_cast<int64_t>(batch.segments.size()) * pieces; },
      [=, &lowering, &params, &kernels = attention_kernels()](int64_t item, int thread) {
        const auto& segments = lowering.batch().segments;
        const BatchState::Segment& segment = segments[segments.size() - 1 - item / pieces];
        const int64_t head = item % pieces * heads_of_item, r_dim = kv.k_dim - kv.v_dim;
        AttentionTask task = lowering.attention_task(params, thread);
        task.q_dim = kv.v_dim;
        task.q_stride = task.out_stride = params.heads * kv.v_dim;
        task.q_rest_stride = params.heads * r_dim;
        task.q = q_c + segment.first_token * task.q_stride + head * kv.v_dim;
        task.q_rest = q_r + segment.first_token * task.q_rest_stride + head * r_dim;
        task.out = out + segment.first_token * task.out_stride + head * kv.v_dim;
        task.tokens = segment.tokens;
        task.group = std::min(heads_of_item, params.heads - head);
        task.first_position = segment.first_position;
        task.block_first = segment.block_first;
        task.block_end = segment.block_end;
        task.k = lowering.cache().keys(params.layer, segment.stream, 0);
        if (const core::CacheRows& rows = lowering.cache().rows(params.layer); rows.is_ring()) task.ring = rows.rows;
        task.sinks = sinks ? sinks + head : nullptr;
        kernels.attend(task);
      });
}

} // namespace ridge::kernels::cpu
