#include "kernels/cuda/microbench/ladder.h"

#include "core/error.h"
#include "kernels/cuda/runtime/cublas.h"
#include "kernels/cuda/runtime/device_info.h"

namespace ridge::kernels::cuda {

Ladder measure_ladder(int64_t size, const Cublas& cublas); // ladder.cu cannot use fmt

Ladder climb_ladder(int64_t size) {
  if (const DeviceInfo info = device_info(); !info.usable) throw_error("CUDA: {}", info.problem);
  if (size < 256 || size % 256 != 0 || size > 16384)
    throw_error("ladder: matrices of {0} x {0}, expected a multiple of 256 up to 16384", size);
  const Cublas cublas;
  Ladder ladder = measure_ladder(size, cublas);
  for (const Rung& rung : ladder.rungs)
    if (!(rung.error < (rung.fp32 ? 1e-5 : 1e-3)))
      throw_error("ladder: '{}' ({}) differs from the first rung by {:.1e}", rung.name, rung.configuration, rung.error);
  return ladder;
}

} // namespace ridge::kernels::cuda
