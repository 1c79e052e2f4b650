// A mean of each channel over the last tokens of a stream, by a softmax of their gates. An item is one stream of the
// batch and some of its channels.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cpu {
namespace {

constexpr int64_t kPoolChannels = 64;

struct Pool {
  int64_t kernel, channels;
  const float *x, *gate, *bias; // [tokens][channels] each, [kernel][channels]
  float* out;                   // [tokens][channels]

  // The state has a row of x and one of the gates for each token. Of the `tokens` from the batch and, before them, from
  // the state, the row that is i tokens behind the batch's first one.
  const float* row(const BatchState::Sequence& sequence, const float* state, int64_t i, bool gates) const {
    if (i < 0) return state + (2 * (kernel - 1 + i) + gates) * channels;
    return (gates ? gate : x) + sequence.tokens[i] * channels;
  }

  void run(const BatchState::Sequence& sequence, float* state, int64_t first, int64_t count) const {
    const int64_t history = kernel - 1;
    const auto tokens = std::ssize(sequence.tokens);
    if (sequence.starts)
      for (int64_t i = 0; i < 2 * history; ++i) std::fill_n(state + i * channels + first, count, 0.0f);
    std::vector<float> largest(count), sum(count);
    for (int64_t t = 0; t < tokens; ++t) {
      float* y = out + sequence.tokens[t] * channels + first;
      const auto gate_of = [&](const float* gates, int64_t i, int64_t c) {
        return gates[first + c] + bias[i * channels + first + c];
      };
      for (int64_t i = 0; i < kernel; ++i) {
        const float* gates = row(sequence, state, t + i - history, true);
        for (int64_t c = 0; c < count; ++c)
          largest[c] = i == 0 ? gate_of(gates, i, c) : std::max(largest[c], gate_of(gates, i, c));
      }
      std::ranges::fill(sum, 0.0f);
      std::fill_n(y, count, 0.0f);
      for (int64_t i = 0; i < kernel; ++i) {
        const float *gates = row(sequence, state, t + i - history, true),
                    *values = row(sequence, state, t + i - history, false);
        for (int64_t c = 0; c < count; ++c) {
          const float share = std::exp(gate_of(gates, i, c) - largest[c]);
          sum[c] += share;
          y[c] += share * values[first + c];
        }
      }
      for (int64_t c = 0; c < count; ++c) y[c] /= sum[c];
    }
    for (int64_t i = 0; i < history; ++i) // ascending: row i takes one behind it
      for (const bool gates : {false, true})
        std::copy_n(row(sequence, state, tokens + i - history, gates) + first, count,
                    state + (2 * i + gates) * channels + first);
  }
};

} // namespace

void lower_pool(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::PoolParams>(op.params);
  const Pool pool = {params.kernel,
                     lowering.info(op.inputs[0]).width,
                     lowering.value(op.inputs[0]),
                     lowering.value(op.inputs[1]),
                     lowering.vector_weight(op.weights[0]).data(),
                     lowering.value(op.outputs[0])};
  const int64_t pieces = ceil_div(pool.channels, kPoolChannels);
  lowering.add_sequences(op, params.state, pieces,
                         [=](const BatchState::Sequence& sequence, float* state, int64_t piece, int) {
                           const int64_t first = piece * kPoolChannels;
                           pool.run(sequence, state, first, std::min(kPoolChannels, pool.channels - first));
                         });
}

} // namespace ridge::kernels::cpu
