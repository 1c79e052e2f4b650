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

struct Setting {
  RandomProgram model{1};
  core::ExecutorConfig config;
  kernels::cuda::DeviceLimits limits = kernels::cuda::kPresumedLimits;
  kernels::cuda::ChipRates rates = kernels::cuda::known_chip("H200").rates();
  int64_t least_side = 4096;
  kernels::cuda::ForcedWays forced;
  kernels::cuda::WayFactors factors = kernels::cuda::way_factors({});
  kernels::cuda::CudaOptions options;
  std::vector<kernels::cuda::CpuExpertLayer> cpu_experts;
  kernels::cuda::AttentionFit attention = {true, true, true, true, true, true}; // of every step

  explicit Setting(const RandomProgram::Shape& shape) { model.transformer(shape, Type::Q4_K, Type::Q6_K); }

  std::vector<kernels::cuda::AttentionFit> fits_of(const kernels::cuda::Plan* steps) const {
    return std::vector(steps ? steps->steps.size() : 0, attention);
  }
  BatchPlan plan(const PlanShape& shape) const {
    const kernels::cuda::Plan steps = kernels::cuda::make_plan(model.program, options.fuse, !config.batch_invariant);
    const auto adapted =
        options.fuse && !config.batch_invariant ? kernels::cuda::make_adapted_plan(model.program) : std::nullopt;
    return kernels::cuda::plan_for({model.program, config, steps, limits, options.overlap, options.dataflow_sync,
                                    options.experts_on_host, fits_of(&steps), rates, least_side, forced, factors,
                                    adapted ? &*adapted : nullptr, fits_of(adapted ? &*adapted : nullptr), cpu_experts},
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
