#include "kernels/cuda/plan/packed_adapters.h"

#include "core/executor.h"
#include "kernels/cuda/products/desc.h"

namespace ridge::kernels::cuda {

AdapterSizes adapter_sizes(const core::Program& program, const MatrixStep::Change& change) {
  const core::Weight &a = program.weights[change.a], &b = program.weights[change.b];
  return {a.rows, padded_rank(a.rows), a.cols, b.rows};
}

bool adapts_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return limits.overlap && !config.exact && !config.observer && !config.batch_invariant;
}

int64_t packed_adapter_bytes(const core::Program& program, const Plan* adapted) {
  int64_t bytes = 0;
  if (adapted)
    for (const Step& step : adapted->steps)
      if (const MatrixStep* m = step.matrix())
        for (const MatrixStep::Part& part : m->parts)
          if (part.change.scale) bytes += adapter_sizes(program, part.change).bytes();
  return bytes;
}

} // namespace ridge::kernels::cuda
