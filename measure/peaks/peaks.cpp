#include "measure/peaks/peaks.h"

#include "kernels/cpu/microbench/microbench.h"
#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/microbench/microbench.h"

namespace ridge::measure {

const core::Ceiling& Peaks::products() {
  if (products_) return *products_;
  products_ = model_.gpu_share > 0 ? kernels::cuda::measure_f16_rate()
                                   : kernels::cpu::measure_rates(model_.executor->config().threads)[0];
  if (model_.gpu_share > 0) products_->value *= static_cast<double>(model_.gpus.size());
  return *products_;
}

const Datasheet* Peaks::datasheet() const {
  return model_.gpu_share == 1 && model_.gpus.size() == 1 ? find_datasheet(kernels::cuda::device_info().name) : nullptr;
}

} // namespace ridge::measure
