#include "app/peaks.h"

#include "kernels/cpu/microbench.h"
#include "kernels/cuda/executor.h"
#include "kernels/cuda/microbench.h"

namespace ridge::app {

const core::Ceiling& Peaks::products() {
  if (!products_)
    products_ = model_.gpu_share > 0 ? kernels::cuda::measure_f16_rate()
                                     : kernels::cpu::measure_rates(model_.executor->config().threads)[0];
  return *products_;
}

const Datasheet* Peaks::datasheet() const {
  return model_.gpu_share == 1 ? find_datasheet(kernels::cuda::device_info().name) : nullptr;
}

} // namespace ridge::app
