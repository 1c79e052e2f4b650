// Brings experts from the mapped file to the GPU, in the device layout: threads copy their matrices into page-locked
// memory, the bus takes them to the GPU, and the GPU repacks them there. While the GPU does its part, the threads copy
// the next.
#pragma once

#include "core/program.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

class ExpertReader {
 public:
  // Takes its buffers: `largest_file` of ExpertSizes on the GPU. `program` must outlive it, and the file, too.
  ExpertReader(const core::Program& program, int64_t largest_file)
      : program_(program),
        device_(largest_file, "the experts' buffer"), pieces_{Piece(largest_file), Piece(largest_file)} {}

  // Asks the system for an expert that is about to be read, so that a disk has several requests at once.
  void expect(const ExpertGroup& group, int64_t expert) const;

  // Puts an expert's block at `to` on the GPU, in the launch's stream. Returns when the file was read.
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
