// Table rows for n-grams: selects, then decodes.
#include "core/host_device/ngram.h"
#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {
namespace {

struct NgramRows {
  core::NgramParams params;
  const std::vector<int32_t>& tokens;
  const int32_t* hash;
  int32_t* rows; // [tokens][heads]

  void run(const BatchState::Sequence& sequence, float* state) const {
    const int length = static_cast<int>(params.length), history = length - 1;
    if (sequence.starts_from_zero) std::fill_n(state, history, 0.0f);
    int32_t ngram[core::kMaxNgram];
    for (const int64_t t : sequence.tokens) {
      core::make_ngram(
          tokens[t], [&](int i) { return static_cast<int32_t>(state[i - 1]) - 1; }, length, params.end_token, ngram);
      for (int head = 0; head < params.heads(); ++head)
        rows[t * params.heads() + head] =
            core::ngram_row(hash, ngram, length, static_cast<int>(params.heads_per_length), head);
      std::copy_backward(state, state + history - 1, state + history);
      state[0] = static_cast<float>(tokens[t] + 1);
    }
  }
};

} // namespace

void lower_ngram_embed(Lowering& lowering, const core::Op& op) {
  const auto params = std::get<core::NgramParams>(op.params);
  const core::Weight& table = lowering.weight(op.weights[0]);
  const auto* hash = reinterpret_cast<const int32_t*>(lowering.weight(op.weights[1]).data);
  auto* rows = reinterpret_cast<int32_t*>(lowering.value(op.outputs[1]));
  lowering.add_sequences(
      op, params.state, 1,
      [rows_of = NgramRows{params, lowering.batch().tokens, hash, rows}](
          const BatchState::Sequence& sequence, float* state, int64_t, int) { rows_of.run(sequence, state); });
  const quant::FormatInfo& format = format_of(table);
  float* out = lowering.value(op.outputs[0]);
  const int64_t heads = params.heads();
  lowering.add_rows({lowering.slot(op.outputs[1])}, {lowering.slot(op.outputs[0])}, false, heads * table.cols,
                    [=, &table, &format](int64_t first, int64_t last) {
                      for (int64_t i = first * heads; i < last * heads; ++i)
                        format.decode(table.row(rows[i]), table.cols, out + i * table.cols);
                    });
}

} // namespace ridge::kernels::cpu
