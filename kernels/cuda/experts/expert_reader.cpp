#include "kernels/cuda/experts/expert_reader.h"

#include "kernels/cuda/experts/weight_rows.h"
#include "kernels/cuda/formats/format_kernels.h"

#include <vector>

namespace ridge::kernels::cuda {

void ExpertReader::expect(const ExpertGroup& group, int64_t expert) const {
  for (const core::WeightId id : group.weights) {
    const core::Weight& w = program_.weights[id];
    expect_rows(w, expert * w.rows, w.rows);
  }
}

void ExpertReader::read(const ExpertGroup& group, int64_t expert, uint8_t* to, const Launch& launch) {
  Piece& piece = pieces_[next_];
  next_ = 1 - next_;
  RIDGE_CUDA(cudaEventSynchronize(piece.sent.handle));
  int64_t at = 0;
  std::vector<RowCopy> copies;
  for (const core::WeightId id : group.weights) {
    const core::Weight& w = program_.weights[id];
    copies.push_back({&w, expert * w.rows, w.rows, piece.host.as() + at});
    at += expert_aligned(w.matrix_bytes());
  }
  copy_rows(copies);
  RIDGE_CUDA(cudaMemcpyAsync(device_.as(), piece.host.as(), at, cudaMemcpyHostToDevice, launch.stream));
  RIDGE_CUDA(cudaEventRecord(piece.sent.handle, launch.stream));
  RIDGE_CUDA(cudaMemsetAsync(to, 0, group.block_bytes, launch.stream)); // padding is fetched, too
  at = 0;
  for (size_t i = 0; i < group.weights.size(); ++i) {
    const core::Weight& w = program_.weights[group.weights[i]];
    format_kernels(w.type).repack(launch, device_.as() + at, w.row_bytes, to + group.offsets[i], w.cols, 0, w.rows,
                                  w.rows);
    at += expert_aligned(w.matrix_bytes());
  }
}

} // namespace ridge::kernels::cuda
