// An indexer's best positions per token.
#include "core/host_device/best.h"
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ridge::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Ties to the first; ascending.
std::vector<int32_t> choose(const std::vector<float>& scores, int64_t count, int64_t most) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (count > most) {
    std::ranges::nth_element(order, order.begin() + most, [&](int32_t a, int32_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    order.resize(most);
    std::ranges::sort(order);
  }
  return order;
}

// Positions of the entries, then the tail without entries, then -1.
void write_positions(const std::vector<int32_t>& entries, int64_t span, int64_t tail_first, int64_t tail_end,
                     int32_t* out, int32_t* end) {
  for (const int64_t entry : entries)
    for (int64_t i = 0; i < span; ++i) *out++ = static_cast<int32_t>(entry * span + i);
  for (int64_t at = tail_first; at < tail_end; ++at) *out++ = static_cast<int32_t>(at);
  std::fill(out, end, -1);
}

// A position has its entry's score, or infinity without an entry.
void write_best_positions(const std::vector<float>& scores, int64_t span, int64_t seen, int64_t most, int32_t* out) {
  if (seen <= most) return write_positions({}, span, 0, seen, out, out + most);
  const int64_t tail = seen / span * span;
  const auto score = [&](int32_t position) { return position < tail ? scores[position / span] : kInfinity; };
  core::keep_best(out, static_cast<int>(most), static_cast<int>(seen),
                  [&](int32_t a, int32_t b) { return score(a) > score(b); });
  std::sort(out, out + most);
}

} // namespace

void lower_index_choice(Lowering& lowering, const core::Op& op) {
  const auto& params = std::get<core::IndexParams>(op.params);
  const core::KvLayer& kv = lowering.program().kv_layers[params.layer];
  const int64_t k_dim = kv.k_dim, span = kv.span, heads = params.heads;
  const int64_t most = lowering.info(op.outputs[0]).width;
  const float *q = lowering.value(op.inputs[0]), *weights = lowering.value(op.inputs[1]);
  const std::vector<float> ones(params.unweighted ? heads : 0, 1.0f);
  auto* out = reinterpret_cast<int32_t*>(lowering.value(op.outputs[0]));
  lowering.schedule().add(
      {lowering.slot(op.inputs[0]), lowering.slot(op.inputs[1]), lowering.cache_resource(params.layer)},
      lowering.slots(op.outputs), [&batch = lowering.batch()] { return batch.rows(false); },
      [=, &lowering, &params, &kernels = attention_kernels()](int64_t item, int thread) {
        const BatchState& batch = lowering.batch();
        const int64_t token = batch.rows(false) - 1 - item; // most positions first
        const int64_t seen = batch.positions[token] + 1, count = seen / span;
        std::vector<float> scores(round_up(count, kAttentionBlock));
        AttentionTask task = {};
        task.q = q + token * heads * k_dim;
        task.group = heads;
        task.first_position = count - 1;
        task.k = lowering.cache().keys(params.layer, batch.streams[token], 0);
        task.k_type = lowering.config().k_type;
        task.k_dim = k_dim;
        task.tile = lowering.attention_scratch(thread);
        task.scratch = task.tile + attention_tile(k_dim, 0);
        kernels.index_scores(task, params.unweighted ? ones.data() : weights + token * heads, scores.data());
        for (float& score : scores)
          if (score != score) score = -kInfinity; // broken model
        if (params.chooses_positions) return write_best_positions(scores, span, seen, most, out + token * most);
        write_positions(choose(scores, count, most / span), span, params.tail ? count * span : seen, seen,
                        out + token * most, out + (token + 1) * most);
      });
}

} // namespace ridge::kernels::cpu
