// Gates of hyper-connections; rows are short.
#include "kernels/cpu/executor/lowering.h"

#include <cmath>

namespace ridge::kernels::cpu {
namespace {

struct Gates {
  core::HyperParams params;
  // [tokens][(2 + count) * count], [3], [(2 + count) * count]; without M [tokens][2 * count], [2], [2 * count]
  const float *x, *scale, *base;
  float *in, *out; // [tokens][count], [tokens][(1 + count) * count] or [tokens][count]

  static float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

  void normalize(float* first, int64_t stride) const {
    float sum = params.epsilon;
    for (int64_t i = 0; i < params.count; ++i) sum += first[i * stride];
    for (int64_t i = 0; i < params.count; ++i) first[i * stride] /= sum;
  }

  void run(int64_t token) const {
    const int64_t count = params.count;
    const int64_t columns = params.iterations > 0 ? count : 0;
    const float* row = x + token * (2 + columns) * count;
    float *to_in = in + token * count, *to_out = out + token * (1 + columns) * count, *matrix = to_out + count;
    for (int64_t i = 0; i < count; ++i) {
      to_in[i] = sigmoid(row[i] * scale[0] + base[i]) + params.epsilon;
      to_out[i] = params.magnitude * sigmoid(row[count + i] * scale[1] + base[count + i]) + params.out_epsilon;
    }
    if (columns == 0) return;
    for (int64_t from = 0; from < count; ++from) {
      float* m = matrix + from * count;
      const int64_t first = (2 + from) * count;
      float largest = -INFINITY, sum = 0;
      for (int64_t i = 0; i < count; ++i)
        largest = std::max(largest, m[i] = row[first + i] * scale[2] + base[first + i]);
      for (int64_t i = 0; i < count; ++i) sum += m[i] = std::exp(m[i] - largest);
      for (int64_t i = 0; i < count; ++i) m[i] = m[i] / sum + params.epsilon;
    }
    for (int64_t round = 0; round < params.iterations; ++round) {
      if (round > 0)
        for (int64_t i = 0; i < count; ++i) normalize(matrix + i * count, 1);
      for (int64_t i = 0; i < count; ++i) normalize(matrix + i, count);
    }
  }
};

} // namespace

void lower_hyper_gates(Lowering& lowering, const core::Op& op) {
  const Gates gates = {std::get<core::HyperParams>(op.params),
                       lowering.value(op.inputs[0]),
                       lowering.vector_weight(op.weights[0]).data(),
                       lowering.vector_weight(op.weights[1]).data(),
                       lowering.value(op.outputs[0]),
                       lowering.value(op.outputs[1])};
  constexpr int64_t kWork = 16; // relative to a copy
  lowering.add_rows(lowering.slots(op.inputs), lowering.slots(op.outputs), lowering.info(op.inputs[0]).gathered,
                    kWork * lowering.info(op.inputs[0]).width, [=](int64_t first, int64_t last) {
                      for (int64_t t = first; t < last; ++t) gates.run(t);
                    });
}

} // namespace ridge::kernels::cpu
