// Planning batches without a GPU.
#pragma once

#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/plan/batch_plan.h"

#include "support/random_program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace ridge::tests {

using kernels::cuda::Attention;
using kernels::cuda::BatchPlan;
using kernels::cuda::ClearDataflow;
using kernels::cuda::ConvertInput;
using kernels::cuda::Exchange;
using kernels::cuda::ExpertBatch;
using kernels::cuda::ExpertDots;
using kernels::cuda::FetchExperts;
using kernels::cuda::GateUpGlu;
using kernels::cuda::Gemm;
using kernels::cuda::IntegerProduct;
using kernels::cuda::KernelCall;
using kernels::cuda::LatentAttention;
using kernels::cuda::matrices_of;
using kernels::cuda::Matvec;
using kernels::cuda::MatvecPair;
using kernels::cuda::MatvecRouter;
using kernels::cuda::Observe;
using kernels::cuda::PlainAttention;
using kernels::cuda::PlainOp;
using kernels::cuda::PlanShape;
using kernels::cuda::PromptAttention;
using kernels::cuda::PromptProduct;
using kernels::cuda::PromptRope;
using kernels::cuda::RopeAttention;
using kernels::cuda::RopeStore;
using kernels::cuda::Sample;
using kernels::cuda::SmallBatch;
using kernels::cuda::SortExperts;
using quant::Type;

struct Kernels final : kernels::cuda::KernelCapabilities {
  bool pairs = true, adapts = true, takes_routers = true, fast = true, ropes_in_attention = true, ropes_runs = true;
  int largest_tile = 32;
  bool wide = true, split_columns = false, leaves_sums = false, dots = true;

  bool can_pair(const kernels::cuda::MatrixStep&, const kernels::cuda::MatrixStep&, int64_t) const override {
    return pairs;
  }
  bool can_adapt(const kernels::cuda::MatrixStep&, int64_t) const override { return adapts; }
  bool can_take_router(const kernels::cuda::MatrixStep&, const kernels::cuda::MatrixStep&, int64_t) const override {
    return takes_routers;
  }
  Fit small_batch(const kernels::cuda::MatrixStep&, int64_t, int tile_tokens) const override {
    return {tile_tokens <= largest_tile, split_columns, leaves_sums};
  }
  Fit wide_batch(const kernels::cuda::MatrixStep&, int64_t) const override {
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

struct Setting {
  RandomProgram model{1};
  core::ExecutorConfig config;
  kernels::cuda::DeviceLimits limits = kernels::cuda::kPresumedLimits;
  kernels::cuda::ChipRates rates = kernels::cuda::known_chip("H200").rates();
  int64_t least_side = 4096;
  kernels::cuda::ForcedWays forced;
  kernels::cuda::WayFactors factors = kernels::cuda::way_factors({});
  kernels::cuda::CudaOptions options;
  Kernels kernels;

  explicit Setting(const RandomProgram::Shape& shape) { model.transformer(shape, Type::Q4_K, Type::Q6_K); }

  BatchPlan plan(const PlanShape& shape) const {
    const kernels::cuda::Plan steps = kernels::cuda::make_plan(model.program, options.fuse, !config.batch_invariant);
    const auto adapted = options.fuse && !config.batch_invariant ? kernels::cuda::make_adapted_plan(model.program) : std::nullopt;
    return kernels::cuda::plan_for({model.program, config, steps, limits, options.overlap, options.dataflow_sync,
                                    options.experts_on_host, kernels, rates, least_side, forced, factors,
                                    adapted ? &*adapted : nullptr},
                                   shape);
  }
  BatchPlan plan(int64_t tokens, int64_t outputs = 1) const { return plan({tokens, outputs, 16, tokens == 1}); }
};

inline RandomProgram::Shape one_layer() {
  RandomProgram::Shape shape;
  shape.layers = 1;
  return shape;
}

inline std::vector<std::string_view> kernels_of(const BatchPlan& plan) {
  std::vector<std::string_view> kernels;
  for (const KernelCall& call : plan.calls) kernels.push_back(call.name());
  return kernels;
}

// The number-th call of this kind.
template <typename Work>
const KernelCall& call_with(const BatchPlan& plan, int number = 0) {
  for (const KernelCall& call : plan.calls)
    if (call.get<Work>() && number-- == 0) return call;
  throw std::logic_error("no such call");
}
template <typename Work>
const Work& call_of(const BatchPlan& plan, int number = 0) {
  return *call_with<Work>(plan, number).template get<Work>();
}
template <typename Work>
std::vector<Work> all_of(const BatchPlan& plan) {
  std::vector<Work> all;
  for (const KernelCall& call : plan.calls)
    if (const auto* work = call.get<Work>()) all.push_back(*work);
  return all;
}
template <typename Work>
int64_t count(const BatchPlan& plan) {
  return std::ssize(all_of<Work>(plan));
}

} // namespace ridge::tests
