// Mean with softmax gates. Item: a stream and some channels.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::kernels::cpu {
namespace {

constexpr int64_t kPoolChannels = 64;

struct Pool {
  int64_t kernel, channels;
  bool overlaps;
  const float *x, *gate, *bias; // [tokens][channels] each, [kernel][channels]
  float* out;                   // [tokens][channels]

  // i: from the batch's first token; i < 0 is in the state, which alternates x and gate rows.
  const float* row(const BatchState::Sequence& sequence, const float* state, int64_t i, bool gates) const {
    if (i < 0) return state + (2 * (kernel - 1 + i) + gates) * channels;
    return (gates ? gate : x) + sequence.tokens[i] * channels;
  }

  void run(const BatchState::Sequence& sequence, float* state, int64_t first, int64_t count) const {
    const int64_t history = kernel - 1;
    const auto tokens = std::ssize(sequence.tokens);
    const int64_t outs = overlaps ? channels / 2 : channels, halves = overlaps ? 2 : 1;
    const float before = overlaps ? -std::numeric_limits<float>::infinity() : 0; // missing tokens' gates
    for (int64_t i = 0; sequence.starts_from_zero && i < 2 * history; ++i)
      for (int64_t half = 0; half < halves; ++half)
        std::fill_n(state + i * channels + half * outs + first, count, i % 2 == 0 ? 0 : before);
    std::vector<float> largest(count), sum(count);
    for (int64_t t = 0; t < tokens; ++t) {
      float* y = out + sequence.tokens[t] * outs + first;
      const auto column = [&](int64_t i) { return overlaps && i >= kernel / 2 ? outs + first : first; };
      const auto gate_of = [&](const float* gates, int64_t i, int64_t c) {
        const int64_t place = overlaps ? i % (kernel / 2) : i;
        return gates[column(i) + c] + bias[place * channels + column(i) + c];
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
          y[c] += share * values[column(i) + c];
        }
      }
      for (int64_t c = 0; c < count; ++c) y[c] /= sum[c];
    }
    for (int64_t i = 0; i < history; ++i) // row i takes a later one
      for (const bool gates : {false, true})
        for (int64_t at = first; at < halves * outs; at += outs)
          std::copy_n(row(sequence, state, tokens + i - history, gates) + at, count,
                      state + (2 * i + gates) * channels + at);
  }
};

} // namespace

void lower_pool(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::PoolParams>(op.params);
  const Pool pool = {params.kernel,
                     lowering.info(op.inputs[0]).width,
                     params.overlaps,
                     lowering.value(op.inputs[0]),
                     lowering.value(op.inputs[1]),
                     lowering.vector_weight(op.weights[0]).data(),
                     lowering.value(op.outputs[0])};
  const int64_t outs = lowering.info(op.outputs[0]).width, pieces = ceil_div(outs, kPoolChannels);
  lowering.add_sequences(op, params.state, pieces,
                         [=](const BatchState::Sequence& sequence, float* state, int64_t piece, int) {
                           const int64_t first = piece * kPoolChannels;
                           pool.run(sequence, state, first, std::min(kPoolChannels, outs - first));
                         });
}

} // namespace ridge::kernels::cpu
