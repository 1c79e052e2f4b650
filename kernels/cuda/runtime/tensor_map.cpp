#include "kernels/cuda/runtime/tensor_map.h"

#include "core/error.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {
namespace {

// Looked up at run time: the executable links no driver.
auto find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = {};
  RIDGE_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    throw Error("CUDA: the driver lacks cuTensorMapEncodeTiled: update the driver");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

} // namespace

CUtensorMap tensor_map(const void* halves, int64_t matrices, int64_t rows, int64_t cols, int box_rows) {
  static const auto encode = find_encoder();
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows),
                               static_cast<cuuint64_t>(matrices)};
  const cuuint64_t strides[2] = {2 * sizes[0], 2 * sizes[0] * sizes[1]};
  const cuuint32_t box[3] = {64, static_cast<cuuint32_t>(box_rows), 1}, steps[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, const_cast<void*>(halves), sizes, strides,
                                 box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw_error("CUDA: cannot create a tensor map of {} x {} x {} halves: error {}", matrices, rows, cols,
                static_cast<int>(result));
  return map;
}

} // namespace ridge::kernels::cuda
