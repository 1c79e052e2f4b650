// LoRA adapters in products' kernels.
#include "core/host_device/round_up.h"
#include "kernels/cuda/executor/launches.h"

#include <cmath>

namespace ridge::kernels::cuda {

AdapterArgs KernelLauncher::adapter_args(const BatchPlan& plan, const MatrixStep& m) const {
  const MatrixStep::Change* change = m.change();
  if (!change) return {};
  AdapterArgs args = adapters_[*change];
  args.sums = workspace_.dataflow_value(
      change->small, plan.dataflow_tokens > 0 ? plan.dataflow_tokens : kDataflowTokens, plan.adapted);
  if (program_.values[change->small].gathered) args.outputs = batch_.device().outputs;
  args.uses = batch_.adapters();
  args.stream_adapters = static_cast<int>(program_.adapters.size());
  args.positions = batch_.device().positions;
  args.streams = batch_.device().streams;
  return args;
}

std::vector<PromptAdapter> KernelLauncher::prompt_adapters(const PromptProduct& call) const {
  std::vector<PromptAdapter> adapters;
  int columns = 0;
  for (const Product& product : call.products) {
    PromptAdapter& adapter = adapters.emplace_back();
    if (const MatrixStep::Change* change = product.matrix.change()) adapter = adapters_.of_prompts(*change);
    adapter.first_column = columns;
    columns += adapter.args.padded;
  }
  return adapters;
}

int KernelLauncher::adapt_prompt(const PromptProduct& call, std::span<const PromptAdapter> adapters,
                                 const GemmArgs& product, int log2_largest, const Launch& launch) const {
  const int columns = adapters.back().first_column + adapters.back().args.padded;
  if (columns == 0) return 0;
  const bool gathered = program_.values[call.products[0].matrix.x].gathered;
  launch_prompt_adapter_input(launch, adapters,
                              {.x = product.x,
                               .z = workspace_.adapted_x(),
                               .tokens = product.tokens,
                               .token_rows = static_cast<int>(core::round_up(product.tokens, kPromptTokens)),
                               .cols = product.cols,
                               .largest = std::exp2(static_cast<float>(log2_largest)),
                               .uses = batch_.adapters(),
                               .stream_adapters = static_cast<int>(program_.adapters.size()),
                               .positions = batch_.device().positions,
                               .streams = batch_.device().streams,
                               .outputs = gathered ? batch_.device().outputs : nullptr});
  return columns;
}

} // namespace ridge::kernels::cuda
