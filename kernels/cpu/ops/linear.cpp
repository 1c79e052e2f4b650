#include "kernels/cpu/executor/lowering.h"

#include <algorithm>

namespace ridge::kernels::cpu {
namespace {

// Fewer if there are too few panels.
int64_t token_block(int64_t tokens, int64_t panels, int threads) {
  int64_t block = kTokenBlock;
  while (block > 32 && panels * ceil_div(tokens, block) < 2 * threads) block /= 2;
  return block;
}

void observe_inputs(Lowering& lowering, const core::Op& op, const float* x, int64_t cols) {
  lowering.schedule().add(
      lowering.slots(op.inputs), {}, [] { return 1; },
      [=, &op, &batch = lowering.batch(), gathered = lowering.info(op.inputs[0]).gathered,
       observer = lowering.config().observer](int64_t, int) {
        std::vector<const float*> rows(batch.rows(gathered));
        for (size_t t = 0; t < rows.size(); ++t) rows[t] = x + static_cast<int64_t>(t) * cols;
        if (!rows.empty()) observer->observe(op, 0, rows);
      });
}

} // namespace

void lower_linear(Lowering& lowering, const core::Op& op) {
  const core::Weight& weight = lowering.weight(op.weights[0]);
  const core::ValueId input = op.inputs[0];
  const bool gathered = lowering.info(input).gathered;
  Linear linear = lowering.make_linear(weight, input);
  linear.x = lowering.value(input);
  linear.out = lowering.value(op.outputs[0]);
  if (op.weights.size() > 1) linear.bias = lowering.vector_weight(op.weights[1]).data();
  Lowering::Resources reads = {lowering.slot(input)};
  if (lowering.wants_codes(weight)) {
    const auto [codes, tiles, resource] = lowering.quantized(input, weight.cols);
    linear.quantized = codes;
    linear.tiles = tiles;
    reads = {resource};
  }
  if (lowering.config().observer) observe_inputs(lowering, op, linear.x, weight.cols);

  const int threads = lowering.threads();
  const std::vector<int64_t> pieces = guided_pieces(weight.rows, weight.row_bytes, threads);
  const int64_t panels = linear.panels();
  lowering.schedule().add(
      reads, lowering.slots(op.outputs),
      [=, &batch = lowering.batch(), count = static_cast<int64_t>(pieces.size()) - 1] {
        const int64_t tokens = batch.rows(gathered);
        if (tokens == 0) return int64_t{0};
        return tokens <= kMaxDotTokens ? count : panels * ceil_div(tokens, token_block(tokens, panels, threads));
      },
      [=, &lowering, numbers = lowering.row_numbers()](int64_t item, int thread) {
        const int64_t tokens = lowering.batch().rows(gathered);
        if (tokens <= kMaxDotTokens) {
          const std::span<const int32_t> all(numbers, tokens);
          run_dots(linear, all, all, pieces[item], pieces[item + 1] - pieces[item]);
        } else {
          const int64_t block = token_block(tokens, panels, threads), first = item / panels * block;
          const std::span<const int32_t> some(numbers + first, std::min(block, tokens - first));
          run_panel(linear, some, some, item % panels, lowering.linear_scratch(thread));
        }
      });
}

} // namespace ridge::kernels::cpu
