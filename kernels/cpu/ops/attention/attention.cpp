// Item: one KV head and segment.
#include "kernels/cpu/executor/lowering.h"

namespace ridge::kernels::cpu {

void lower_attention(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::AttentionParams>(op.params);
  const core::KvLayer kv = lowering.program().kv_layers[params.layer];
  const float* q = lowering.value(op.inputs[0]);
  float* out = lowering.value(op.outputs[0]);
  const float* weights = op.weights.empty() ? nullptr : lowering.vector_weight(op.weights[0]).data();
  const float *sinks = params.reach == 0 ? weights : nullptr, *biases = params.reach > 0 ? weights : nullptr;
  const AttentionKernels& kernels = attention_kernels();
  lowering.schedule().add(
      {lowering.slot(op.inputs[0]), lowering.cache_resource(params.layer)}, lowering.slots(op.outputs),
      [&batch = lowering.batch(), kv] { return static_cast<int64_t>(batch.segments.size()) * kv.heads; },
      [=, &lowering, &params, &kernels](int64_t item, int thread) {
        // Last segments first: they attend to the most positions.
        const auto& segments = lowering.batch().segments;
        const BatchState::Segment& segment = segments[segments.size() - 1 - item / kv.heads];
        const int64_t head = item % kv.heads, group = params.heads / kv.heads;
        AttentionTask task = lowering.attention_task(params, thread);
        task.q_dim = kv.k_dim;
        task.q_stride = params.heads * kv.k_dim;
        task.out_stride = params.heads * kv.v_dim;
        task.q = q + segment.first_token * task.q_stride + head * group * kv.k_dim;
        task.out = out + segment.first_token * task.out_stride + head * group * kv.v_dim;
        task.tokens = segment.tokens;
        task.group = group;
        task.first_position = segment.first_position;
        task.end = segment.end;
        task.block_first = segment.block_first;
        task.block_end = segment.block_end;
        task.k = lowering.cache().keys(params.layer, segment.stream, head);
        task.v = lowering.cache().values(params.layer, segment.stream, head);
        if (const core::CacheRows& rows = lowering.cache().rows(params.layer); rows.is_ring()) task.ring = rows.rows;
        task.first_head = head * group;
        task.sinks = sinks ? sinks + head * group : nullptr;
        task.biases = biases ? biases + head * group * (2 * params.reach + 1) : nullptr;
        kernels.attend(task);
      });
}

} // namespace ridge::kernels::cpu
