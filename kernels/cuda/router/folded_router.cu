#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/router/folded_router.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

// A block per row of R; one more for the gate.
__global__ void fold_norm_kernel(FoldedRouter router, FoldedRows args) {
  __shared__ float scratch[kElementThreads / kWarp];
  const int row = blockIdx.x;
  if (row == args.experts) {
    for (int i = threadIdx.x; i < args.width; i += kElementThreads) router.gate[i] *= args.norm[i];
    return;
  }
  const float* from = args.r + int64_t{row} * args.width;
  float* to = router.matrix + int64_t{row} * (args.cols + args.width) + args.cols;
  float sum = 0;
  for (int i = threadIdx.x; i < args.width; i += kElementThreads) {
    to[i] = from[i] * args.norm[i];
    if (args.bias) sum += to[i] * args.bias[i];
  }
  sum = block_sum(sum, scratch);
  if (router.constant && threadIdx.x == 0) router.constant[row] = sum;
}

constexpr int kFoldedRows = 8;
__global__ void fold_rows_kernel(FoldedRouter router, FoldedRows args) {
  const int column = blockIdx.x * kElementThreads + threadIdx.x, first_row = blockIdx.y * kFoldedRows;
  if (column >= args.cols) return;
  const int64_t stride = args.cols + args.width;
  const auto to = [&](int row) { return router.matrix + min(first_row + row, args.experts - 1) * stride; };
  float sum[kFoldedRows] = {};
  for (int i = 0; i < args.count; ++i) {
    const float o = args.o[int64_t{i} * args.cols + column];
#pragma unroll
    for (int row = 0; row < kFoldedRows; ++row) sum[row] += to(row)[args.cols + args.first + i] * o;
  }
#pragma unroll
  for (int row = 0; row < kFoldedRows; ++row)
    if (first_row + row < args.experts) to(row)[column] = sum[row] + (args.first > 0 ? to(row)[column] : 0);
}

} // namespace

void fold_norm(const Launch& launch, const FoldedRouter& router, const FoldedRows& args) {
  launch(fold_norm_kernel, static_cast<unsigned>(args.experts + (router.gate ? 1 : 0)), kElementThreads, 0, router,
         args);
}

void fold_rows(const Launch& launch, const FoldedRouter& router, const FoldedRows& args) {
  const auto blocks = [](int n, int of_block) { return static_cast<unsigned>((n + of_block - 1) / of_block); };
  launch(fold_rows_kernel, dim3(blocks(args.cols, kElementThreads), blocks(args.experts, kFoldedRows)), kElementThreads,
         0, router, args);
}

} // namespace ridge::kernels::cuda
