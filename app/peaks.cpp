#include "app/peaks.h"

#include "kernels/cpu/bandwidth.h"
#include "kernels/cpu/microbench.h"
#include "kernels/cuda/executor.h"
#include "kernels/cuda/microbench.h"

namespace ridge::app {

double Peaks::read_bytes_per_second() const {
  return device_ == Device::cuda ? kernels::cuda::measure_read_bandwidth()
                                 : kernels::cpu::measure_read_bandwidth(threads_);
}

const core::Ceiling& Peaks::products() {
  if (!products_)
    products_ = device_ == Device::cuda ? kernels::cuda::measure_f16_rate() : kernels::cpu::measure_rates(threads_)[0];
  return *products_;
}

const Datasheet* Peaks::datasheet() const {
  return device_ == Device::cuda ? find_datasheet(kernels::cuda::device_info().name) : nullptr;
}

} // namespace ridge::app
