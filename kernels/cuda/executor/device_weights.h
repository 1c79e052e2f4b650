// Weights from the mapped file into device memory, in the order that the kernels want.
#pragma once

#include "core/program.h"
#include "kernels/cuda/runtime/device.h"

#include <functional>
#include <vector>

namespace ridge::kernels::cuda {

struct DeviceWeight {
  const uint8_t* data = nullptr; // matrices in the device layout of their format; vectors as f32
  int64_t row_bytes = 0;         // 0: a vector
  int64_t matrix_bytes = 0;      // of each of an expert weight's matrices
};

class DeviceWeights {
 public:
  // Takes the memory for the weights that a Program uses. Throws OutOfMemory.
  explicit DeviceWeights(const core::Program& program);

  // Streams through pinned buffers: while the GPU copies and repacks one piece, the CPU's threads fill the next. Waits
  // for the end. `progress` may be empty.
  void upload(const core::Program& program, const Launch& launch,
              const std::function<void(double done_bytes, double total_bytes)>& progress) const;

  const DeviceWeight& operator[](core::WeightId id) const { return weights_[id]; }
  // Null where there is none (a negative id).
  const float* vector(core::WeightId id) const {
    return id < 0 ? nullptr : reinterpret_cast<const float*>(weights_[id].data);
  }

 private:
  DeviceMemory memory_;
  std::vector<DeviceWeight> weights_; // by WeightId; unused ones are empty
};

} // namespace ridge::kernels::cuda
