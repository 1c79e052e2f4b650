// Copies weights to device memory, in the kernels' layout.
#pragma once

#include "core/program.h"
#include "kernels/cuda/experts/expert_store.h"
#include "kernels/cuda/runtime/device.h"

#include <functional>
#include <memory>
#include <vector>

namespace ridge::kernels::cuda {

struct DeviceWeight {
  const uint8_t* data = nullptr; // matrices in their format's device layout; vectors as f32
  int64_t row_bytes = 0;         // 0: a vector
  int64_t matrix_bytes = 0;
  int64_t expert_stride = 0; // of experts in host memory; else 0
};

class DeviceWeights {
 public:
  // Allocates all weights but those of `experts`; throws OutOfMemory. Shares memory with `others` (may be null), which
  // it keeps alive.
  DeviceWeights(const core::Program& program, const ExpertStore& experts, const DeviceWeights* others = nullptr,
                const core::Program* other_program = nullptr);

  // The GPU repacks a piece while CPU threads fill the next. Host-memory experts return repacked; those in the file are
  // skipped. Waits. `progress` may be empty.
  void upload(const core::Program& program, const Launch& launch,
              const std::function<void(double done_bytes, double total_bytes)>& progress) const;

  int64_t bytes() const { return static_cast<int64_t>(memory_->bytes()); } // on the GPU, without shared ones

  const DeviceWeight& operator[](core::WeightId id) const { return weights_[id]; }
  // Null for negative ids.
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
  std::vector<bool> shared_;
  std::vector<DeviceWeight> weights_; // by WeightId
  bool experts_filed_;
};

} // namespace ridge::kernels::cuda
