#include "kernels/cuda/plan/packed_adapters.h"

#include "core/executor.h"
#include "kernels/cuda/plan/candidates.h"

namespace ridge::kernels::cuda {

AdapterBytes adapter_bytes(const core::Program& program, const MatrixStep& m) {
  const ProductDesc desc = desc_of(program, m, 1);
  const int64_t padded = desc.padded_ranks();
  const int64_t rows = int64_t{desc.row_blocks()} * row_block_rows(desc.format.tile_bytes);
  return {padded * desc.cols * 2, rows * desc.adapter_columns() * 2, padded * 4, padded * 4};
}

bool adapts_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return limits.overlap && !config.exact && !config.observer && !config.batch_invariant;
}

int64_t packed_adapter_bytes(const core::Program& program, const Plan* adapted) {
  int64_t bytes = 0;
  if (adapted)
    for (const Step& step : adapted->steps)
      if (const MatrixStep* m = step.matrix(); m && m->has_changes()) bytes += adapter_bytes(program, *m).all();
  return bytes;
}

} // namespace ridge::kernels::cuda
