// LoRA adapters as products' kernels read them (matvec/adapter_rows.cuh), beside the ops' own weights, which other
// batches use.
#pragma once

#include "kernels/cuda/executor/device_weights.h"
#include "kernels/cuda/gemm/prompt_adapters.h"
#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/runtime/device.h"

#include <functional>
#include <map>

namespace ridge::kernels::cuda {

class PackedAdapters {
 public:
  // Throws OutOfMemory. `adapted` may be null; `prompts`: also for prompt products.
  PackedAdapters(const core::Program& program, const Plan* adapted, bool prompts);

  // Call after the weights' upload. Waits for the end.
  void make(const core::Program& program, const Plan& adapted, const DeviceWeights& weights,
            const Launch& launch) const;

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }
  // A product's, by its first change, without what a batch decides.
  const AdapterArgs& operator[](const MatrixStep::Change& first) const { return products_.at(first.a).args; }
  const PromptAdapter& of_prompts(const MatrixStep::Change& first) const { return products_.at(first.a); }

  // Adds the changes of a product to the bounds of its matrices.
  void add_bounds(const core::Program& program, const MatrixStep& m,
                  const std::function<ProductBound*(core::WeightId)>& bound_of, const Launch& launch) const;

 private:
  DeviceMemory memory_;
  bool prompts_;
  std::map<core::WeightId, PromptAdapter> products_; // by the first A
};

} // namespace ridge::kernels::cuda
