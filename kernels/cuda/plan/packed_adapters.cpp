#include "kernels/cuda/plan/packed_adapters.h"

#include "core/executor.h"
#include "kernels/cuda/plan/candidates.h"

namespace ridge::kernels::cuda {

AdapterBytes adapter_bytes(const core::Program& program, const MatrixStep& m, bool prompts) {
  const ProductDesc desc = desc_of(program, m, 1);
  const int64_t padded = desc.padded_ranks();
  const int64_t rows = int64_t{desc.row_blocks()} * row_block_rows(desc.format.tile_bytes);
  AdapterBytes bytes{padded * desc.cols * 2, rows * desc.adapter_columns() * 2, padded * 4, padded * 4};
  if (prompts) bytes.prompt_a = m.norm == kNone ? 0 : bytes.a, bytes.prompt_values = 2 * bytes.factors;
  return bytes;
}

bool adapts_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return limits.overlap && !config.exact && !config.observer && !config.batch_invariant;
}

bool adapts_prompts(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return adapts_products(config, limits) && has_prompt_products(config, limits) && !config.communicator;
}

int64_t packed_adapter_bytes(const core::Program& program, const Plan* adapted, bool prompts) {
  int64_t bytes = 0;
  if (adapted)
    for (const Step& step : adapted->steps)
      if (const MatrixStep* m = step.matrix(); m && m->has_changes())
        bytes += adapter_bytes(program, *m, prompts).all();
  return bytes;
}

} // namespace ridge::kernels::cuda
