// Brings experts from the mapped file to the GPU: threads copy them into page-locked memory while the GPU repacks the
// previous one.
#pragma once

#include "core/program.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

class ExpertReader {
 public:
  // `program` and the file must outlive it.
  ExpertReader(const core::Program& program, int64_t largest_file)
      : program_(program),
        device_(largest_file, "the experts' buffer"), pieces_{Piece(largest_file), Piece(largest_file)} {}

  // Reads ahead without waiting.
  void expect(const ExpertGroup& group, int64_t expert) const;

  // To the GPU, in the launch's stream. Returns after the file was read.
  void read(const ExpertGroup& group, int64_t expert, uint8_t* to, const Launch& launch);

 private:
  struct Piece {
    PinnedMemory host;
    Event sent;
    explicit Piece(int64_t bytes) : host(bytes) {}
  };
  const core::Program& program_;
  DeviceMemory device_;
  Piece pieces_[2];
  int next_ = 0;
};

} // namespace ridge::kernels::cuda
