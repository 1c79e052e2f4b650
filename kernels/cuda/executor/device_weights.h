// Weights from the mapped file into device memory, in the order that the kernels want.
#pragma once

#include "core/program.h"
#include "kernels/cuda/experts/expert_store.h"
#include "kernels/cuda/runtime/device.h"

#include <functional>
#include <memory>
#include <vector>

namespace ridge::kernels::cuda {

struct DeviceWeight {
  const uint8_t* data = nullptr; // matrices in the device layout of their format; vectors as f32
  int64_t row_bytes = 0;         // 0: a vector
  int64_t matrix_bytes = 0;      // of each of an expert weight's matrices
  int64_t expert_stride = 0;     // from one to the next, of experts in the host's memory; else 0
};

class DeviceWeights {
 public:
  // Takes the memory for the weights that a Program uses and `experts` does not have. Throws OutOfMemory. What
  // `others`, those of `other_program`, have of the same data is shared with them, also when they are gone; null:
  // nothing is.
  DeviceWeights(const core::Program& program, const ExpertStore& experts, const DeviceWeights* others = nullptr,
                const core::Program* other_program = nullptr);

  // Streams through pinned buffers: while the GPU copies and repacks one piece, the CPU's threads fill the next. What
  // stays in the host's memory comes back from the GPU, repacked, and what stays in the file is left out. Waits for the
  // end. `progress` may be empty.
  void upload(const core::Program& program, const Launch& launch,
              const std::function<void(double done_bytes, double total_bytes)>& progress) const;

  int64_t bytes() const { return static_cast<int64_t>(memory_->bytes()); } // on the GPU, without what is shared

  const DeviceWeight& operator[](core::WeightId id) const { return weights_[id]; }
  // Null where there is none (a negative id).
  const float* vector(core::WeightId id) const {
    return id < 0 ? nullptr : reinterpret_cast<const float*>(weights_[id].data);
  }

 private:
  struct Pieces;
  Pieces find_pieces(const core::Program& program) const;
  bool on_host(size_t id) const { return weights_[id].expert_stride > 0; }
  bool is_uploaded(size_t id) const { return weights_[id].data && !shared_[id] && !(experts_filed_ && on_host(id)); }
  void share(const core::Program& program, const DeviceWeights& others, const core::Program& other_program);

  std::shared_ptr<DeviceMemory> memory_;
  std::vector<std::shared_ptr<DeviceMemory>> others_memory_;
  std::vector<bool> shared_;          // by WeightId: lies in others' memory
  std::vector<DeviceWeight> weights_; // by WeightId; unused ones are empty
  bool experts_filed_;
};

} // namespace ridge::kernels::cuda
