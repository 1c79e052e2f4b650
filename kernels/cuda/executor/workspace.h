// Device memory for values and scratch (plan/workspace_plan.h).
#pragma once

#include "kernels/cuda/gemm/prompt_product.h"
#include "kernels/cuda/plan/workspace_plan.h"
#include "kernels/cuda/runtime/context.h"
#include "kernels/cuda/small_batch/batch.h"

#include <memory>
#include <vector>

namespace ridge::kernels::cuda {

class Workspace {
 public:
  // `adapted`: may be null.
  Workspace(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan, const Plan* adapted,
            const DeviceContext& context);

  float* value(core::ValueId id) const { return values_[slot_of_value_[id]].as<float>(); }

  float* adapted_value(core::ValueId id) const { return adapted_places_[id]; }

  // A value that a running kernel passes on. Nothing else uses its memory, which holds the sentinel before a batch.
  float* dataflow_value(core::ValueId id, int64_t tokens, bool adapted) const {
    return (adapted ? adapted_dataflow_ : dataflow_).as<float>() + tokens * values_plan(adapted).dataflow_offset[id];
  }
  void clear_dataflow(int64_t tokens, bool adapted, cudaStream_t stream) const;

  const float* rope_table(int32_t index) const { return rope_tables_[index].as<float>(); }
  const uint8_t* rope_axes(int32_t index) const { return rope_axes_[index]; } // null: pairs rotate by position
  int64_t bytes() const { return bytes_; }

  uint16_t* adapted_x() const { return adapted_x_.as<uint16_t>(); }
  uint16_t* half_x() const { return half_x_.as<uint16_t>(); }
  uint16_t* glu_half() const { return glu_half_.as<uint16_t>(); }
  unsigned* glu_largest() const { return glu_largest_.as<unsigned>(); }
  int8_t* exponents() const { return exponents_.as<int8_t>(); }
  float* gate() const { return gate_.as<float>(); }
  float* up() const { return up_.as<float>(); }
  PromptScratch& prompt_scratch() const { return *prompt_scratch_; }
  // With prompt products only.
  ProductBound* product_bound(core::WeightId id) const { return bounds_.as<ProductBound>() + id; }
  float* batch_parts() const { return parts_.as<float>(); }

  int32_t* tile_count() const { return slots_.as<int32_t>(); }
  int32_t* slot_order() const { return tile_count() + 1; }
  int32_t* slot_places() const { return slot_order() + sizes_.most_slots; }
  ExpertTile* expert_tiles() const { return reinterpret_cast<ExpertTile*>(slot_places() + sizes_.most_slots); }

  float* attention_partial() const { return attention_partial_.as<float>(); }
  float* latent_partial() const { return latent_partial_.as<float>(); }
  float* index_scores() const { return index_scores_.as<float>(); }
  void* unpacked_cache() const { return unpacked_cache_.as(); } // null: none
  const int32_t* zero_streams() const { return zero_streams_.as<int32_t>(); }
  unsigned* attention_tickets() const { return attention_tickets_.as<unsigned>(); }

 private:
  DeviceMemory memory(int64_t bytes, const char* what) {
    bytes_ += bytes;
    return DeviceMemory(bytes, what);
  }
  const ValuesPlan& values_plan(bool adapted) const { return adapted ? sizes_.adapted : sizes_; }
  void allocate_values();
  void place_adapted_values(const core::Program& program, const Plan& adapted);
  void copy_rope_tables(const core::Program& program, int64_t context, cudaStream_t stream);
  void allocate_products(cudaStream_t stream);
  void allocate_attention(cudaStream_t stream);

  WorkspacePlan sizes_;
  std::vector<int32_t> slot_of_value_;
  int64_t bytes_ = 0;
  std::vector<DeviceMemory> values_, adapted_values_;
  DeviceMemory dataflow_, adapted_dataflow_, adapted_x_;
  std::vector<float*> adapted_places_; // by value
  std::vector<DeviceMemory> rope_tables_;
  std::vector<const uint8_t*> rope_axes_;
  DeviceMemory half_x_, glu_half_, glu_largest_, exponents_, bounds_, gate_, up_, parts_, slots_;
  std::unique_ptr<PromptScratch> prompt_scratch_;
  DeviceMemory attention_partial_, latent_partial_, index_scores_, attention_tickets_, unpacked_cache_, zero_streams_;
};

} // namespace ridge::kernels::cuda
