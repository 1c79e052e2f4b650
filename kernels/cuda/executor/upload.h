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

struct UploadedWeights {
  DeviceMemory memory;
  std::vector<DeviceWeight> weights; // by WeightId; unused ones are empty
};

// Memory for the weights of a Program, and where each of them goes.
UploadedWeights allocate_weights(const core::Program& program);

// Streams through pinned buffers: while the GPU copies and repacks one piece, the CPU's threads fill the next.
void upload_weights(const core::Program& program, const UploadedWeights& to, const Launch& launch,
                    const std::function<void(double, double)>& progress);

} // namespace ridge::kernels::cuda
