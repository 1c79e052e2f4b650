#include "kernels/cuda/executor/executor.h"

#include <string_view>

namespace ridge::kernels::cuda {

CudaOptions with_serial_mode(CudaOptions options, const char* serial) {
  if (serial && *serial && std::string_view(serial) != "0")
    options.graphs = options.overlap = options.dataflow_sync = false;
  return options;
}

} // namespace ridge::kernels::cuda
