// A model, a chip and kernels that can do what they are asked for: what a batch's plan is made from, without a GPU.
#pragma once

#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/plan/batch_plan.h"

#include "support/random_program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace ridge::tests {

using kernels::cuda::BatchPlan;
using kernels::cuda::Kernel;
using kernels::cuda::KernelCall;
using kernels::cuda::PlanShape;
using quant::Type;

struct Kernels final : kernels::cuda::KernelChoices {
  bool pairs = true, takes_routers = true, fast = true, ropes_in_attention = true, ropes_runs = true;
  int largest_tile = 32; // of small batches
  bool wide = true, split_columns = false, leaves_sums = false, dots = true;

  bool can_pair(const kernels::cuda::MatrixStep&, const kernels::cuda::MatrixStep&, int64_t) const override {
    return pairs;
  }
  bool can_take_router(const kernels::cuda::MatrixStep&, const kernels::cuda::MatrixStep&, int64_t) const override {
    return takes_routers;
  }
  SmallBatch small_batch(const kernels::cuda::MatrixStep&, int64_t, int tile_tokens) const override {
    return {tile_tokens <= largest_tile, split_columns, leaves_sums};
  }
  SmallBatch wide_batch(const kernels::cuda::MatrixStep&, int64_t) const override {
    return {wide, split_columns, leaves_sums};
  }
  bool can_dot_experts(const kernels::cuda::MatrixStep&, int64_t) const override { return dots; }
  bool can_rope_in_attention(const kernels::cuda::HeadsStep&, bool one_run) const override {
    return fast && ropes_in_attention && (ropes_runs || !one_run);
  }
  bool can_rope_prompts(const kernels::cuda::HeadsStep&) const override { return fast; }
  bool can_attend_prompts(const core::Op&) const override { return fast; }
  bool can_multiply_bytes(const kernels::cuda::MatrixStep&) const override { return true; }
  bool has_fast_attention(const core::Op&) const override { return fast; }
  bool attention_writes_half(const core::Op&) const override { return fast; }
};

// A model and what an executor for it would plan with.
struct Setting {
  RandomProgram model{1};
  core::ExecutorConfig config;
  kernels::cuda::DeviceLimits limits = kernels::cuda::kPresumedLimits;
  kernels::cuda::ChipRates rates = kernels::cuda::known_chip("H200").rates();
  int64_t least_side = 4096; // as large models'
  kernels::cuda::ForcedWays forced;
  kernels::cuda::CudaOptions options;
  Kernels kernels;

  explicit Setting(const RandomProgram::Shape& shape) { model.transformer(shape, Type::Q4_K, Type::Q6_K); }

  BatchPlan plan(const PlanShape& shape) const {
    const kernels::cuda::Plan steps = kernels::cuda::make_plan(model.program, options.fuse);
    return kernels::cuda::plan_for({model.program, config, steps, limits, options.overlap, options.dataflow_sync,
                                    options.experts_on_host, kernels, rates, least_side, forced},
                                   shape);
  }
  BatchPlan plan(int64_t tokens, int64_t outputs = 1) const { return plan({tokens, outputs, 16, tokens == 1}); }
};

inline RandomProgram::Shape one_layer() {
  RandomProgram::Shape shape;
  shape.layers = 1;
  return shape;
}

inline std::vector<Kernel> kernels_of(const BatchPlan& plan) {
  std::vector<Kernel> kernels;
  for (const KernelCall& call : plan.calls) kernels.push_back(call.kernel);
  return kernels;
}

inline const KernelCall& call_of(const BatchPlan& plan, Kernel kernel, int number = 0) {
  for (const KernelCall& call : plan.calls)
    if (call.kernel == kernel && number-- == 0) return call;
  FAIL("no such call");
  return plan.calls[0];
}

inline int64_t count(const BatchPlan& plan, Kernel kernel) { return std::ranges::count(kernels_of(plan), kernel); }

} // namespace ridge::tests
