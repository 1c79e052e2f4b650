// Item: a stream and some channels.
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {
namespace {

constexpr int64_t kItemChannels = 256;

struct Conv {
  core::ConvParams params;
  int64_t channels;
  const float *x, *taps, *bias; // [tokens][channels], [channels][kernel], [channels] or null
  float* out;                   // [tokens][channels]

  void run(const BatchState::Sequence& sequence, float* state, int64_t first, int64_t count) const {
    const int64_t history = params.kernel - 1;
    const auto tokens = std::ssize(sequence.tokens);
    const std::vector<float> zeros(params.ahead > 0 ? channels : 0);
    const auto input = [&](int64_t i) { // from the batch's first token
      return i < 0 ? state + (history + i) * channels : i < tokens ? x + sequence.tokens[i] * channels : zeros.data();
    };
    if (sequence.starts_from_zero)
      for (int64_t i = 0; i < history; ++i) std::fill_n(state + i * channels + first, count, 0.0f);
    std::vector<const float*> inputs(params.kernel);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i <= history; ++i) inputs[i] = input(t + i - history + params.ahead);
      float* y = out + sequence.tokens[t] * channels + first;
      recurrent_kernels().convolve(inputs.data(), taps, bias, params.kernel, first, count, y);
      vector_kernels().activate({params.activation}, y, count, y);
    }
    for (int64_t i = 0; i < history; ++i) // row i takes a later one
      std::copy_n(input(tokens + i - history) + first, count, state + i * channels + first);
  }
};

} // namespace

void lower_conv1d(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::ConvParams>(op.params);
  const float* bias = op.weights.size() > 1 ? lowering.vector_weight(op.weights[1]).data() : nullptr;
  const Conv conv = {params,
                     lowering.info(op.inputs[0]).width,
                     lowering.value(op.inputs[0]),
                     reinterpret_cast<const float*>(lowering.weight(op.weights[0]).data),
                     bias,
                     lowering.value(op.outputs[0])};
  const int64_t pieces = ceil_div(conv.channels, kItemChannels);
  lowering.add_sequences(op, params.state, pieces,
                         [=](const BatchState::Sequence& sequence, float* state, int64_t piece, int) {
                           const int64_t first = piece * kItemChannels;
                           conv.run(sequence, state, first, std::min(kItemChannels, conv.channels - first));
                         });
}

} // namespace ridge::kernels::cpu
