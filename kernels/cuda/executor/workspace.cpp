#include "kernels/cuda/executor/workspace.h"

namespace ridge::kernels::cuda {

Workspace::Workspace(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                     const Plan* adapted, const DeviceContext& context)
    : sizes_(plan_workspace(program, config, plan, context.limits(), adapted)),
      slot_of_value_(plan.buffers.slot_of_value) {
  allocate_values();
  if (adapted) place_adapted_values(program, *adapted);
  copy_rope_tables(program, config.context, context.stream());
  allocate_products(context.stream());
  allocate_attention(context.stream());
}

void Workspace::allocate_values() {
  for (const int64_t bytes : sizes_.values) values_.push_back(memory(bytes, "the activations"));
  dataflow_ = memory(sizes_.dataflow, "the activations");
  for (const int64_t bytes : sizes_.adapted.values) adapted_values_.push_back(memory(bytes, "the activations"));
  adapted_dataflow_ = memory(sizes_.adapted.dataflow, "the activations");
  adapted_x_ = memory(sizes_.adapted_x, "the activations");
}

// What the host reads or writes has one place in both plans.
void Workspace::place_adapted_values(const core::Program& program, const Plan& adapted) {
  for (core::ValueId id = 0; id < std::ssize(program.values); ++id) {
    const int32_t slot = adapted.buffers.slot_of_value[id];
    const bool shared = program.is_read_after(id) || id == program.input;
    const int32_t of_plan = slot < 0 ? kNone : sizes_.adapted_slots[slot];
    adapted_places_.push_back(shared             ? value(id)
                              : slot < 0         ? nullptr
                              : of_plan != kNone ? values_[of_plan].as<float>()
                                                 : adapted_values_[slot].as<float>());
  }
}

void Workspace::copy_rope_tables(const core::Program& program, int64_t context, cudaStream_t stream) {
  for (size_t i = 0; i < program.rope_tables.size(); ++i) {
    rope_tables_.push_back(memory(sizes_.rope_tables[i], "a rotation table"));
    const core::RopeTable& table = program.rope_tables[i];
    const std::span frequencies(table.frequencies(context));
    const auto copy = [&](auto from, size_t at) {
      RIDGE_CUDA(
          cudaMemcpyAsync(rope_tables_[i].as() + at, from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream));
    };
    copy(frequencies, 0);
    rope_axes_.push_back(table.axes.empty() ? nullptr : rope_tables_[i].as() + frequencies.size_bytes());
    copy(std::span(table.axes), frequencies.size_bytes());
  }
}

void Workspace::allocate_products(cudaStream_t stream) {
  half_x_ = memory(sizes_.half_x, "the activations");
  if (half_x_.bytes() > 0) RIDGE_CUDA(cudaMemsetAsync(half_x_.as(), 0, half_x_.bytes(), stream));
  glu_half_ = memory(sizes_.glu_half, "the activations");
  glu_largest_ = memory(sizes_.glu_largest, "the activations");
  exponents_ = memory(sizes_.exponents, "the activations");
  if (sizes_.decoded > 0) {
    prompt_scratch_ = std::make_unique<PromptScratch>(sizes_.widest_cols, sizes_.kept_decoded);
    bytes_ += 2 * prompt_scratch_->buffer_bytes();
  }
  bounds_ = memory(sizes_.product_bounds, "the activations");
  gate_ = memory(sizes_.gate, "the activations");
  up_ = memory(sizes_.gate, "the activations");
  parts_ = memory(sizes_.batch_parts, "sums of small batches");
  slots_ = memory(sizes_.slots, "experts' tokens");
}

void Workspace::allocate_attention(cudaStream_t stream) {
  attention_partial_ = memory(sizes_.attention_partial, "attention");
  latent_partial_ = memory(sizes_.latent_partial, "attention");
  index_scores_ = memory(sizes_.index_scores, "attention");
  attention_tickets_ = memory(sizes_.attention_tickets, "attention");
  RIDGE_CUDA(cudaMemsetAsync(attention_tickets_.as(), 0, attention_tickets_.bytes(), stream));
  unpacked_cache_ = memory(sizes_.unpacked_cache, "attention");
  zero_streams_ = memory(sizes_.zero_streams, "attention");
  if (zero_streams_.bytes() > 0) RIDGE_CUDA(cudaMemsetAsync(zero_streams_.as(), 0, zero_streams_.bytes(), stream));
}

// The sentinel (ptx.cuh) is all ones.
void Workspace::clear_dataflow(int64_t tokens, bool adapted, cudaStream_t stream) const {
  if (const int64_t floats = tokens * values_plan(adapted).dataflow_offset.back(); floats > 0)
    RIDGE_CUDA(cudaMemsetAsync((adapted ? adapted_dataflow_ : dataflow_).as(), 0xff, floats * 4, stream));
}

} // namespace ridge::kernels::cuda
