// Launches the calls of a batch's plan: resolves values and weights to pointers and calls the kernel. Nothing is
// decided here; the same argument builders answer the planner's questions about what the kernels can do.
#pragma once

#include "kernels/cuda/cache/kv_cache.h"
#include "kernels/cuda/exchange/exchange_memory.h"
#include "kernels/cuda/executor/batch_memory.h"
#include "kernels/cuda/executor/decode_loop.h"
#include "kernels/cuda/executor/device_weights.h"
#include "kernels/cuda/executor/folded_routers.h"
#include "kernels/cuda/executor/workspace.h"
#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/gemm/prompt_exchange.h"
#include "kernels/cuda/plan/batch_plan.h"

namespace ridge::kernels::cuda {

class KernelLauncher final : public KernelChoices {
 public:
  // All of these must outlive the launcher.
  KernelLauncher(const core::Program& program, const core::ExecutorConfig& config, const DeviceContext& context,
                 const DeviceWeights& weights, const FoldedRouters& routers, const ExpertStore& experts,
                 const KvCache& cache, const StateMemory& states, const Workspace& workspace, const BatchMemory& batch,
                 const DecodeLoop& decoding)
      : program_(program), config_(config), context_(context), weights_(weights), routers_(routers), experts_(experts),
        cache_(cache), states_(states), workspace_(workspace), batch_(batch), decoding_(decoding) {}

  void launch(const BatchPlan& plan, const KernelCall& call, const Launch& launch);
  // Computes what prompts' products need to know of uploaded weights.
  void bound_products(const Plan& plan, const Launch& launch) const;
  // What a call of fetch_experts is about: the choice of experts.
  const int32_t* chosen_experts(const BatchPlan& plan, const KernelCall& call) const {
    return ids(plan, call.outputs[0]);
  }

  bool can_pair(const MatrixStep& first, const MatrixStep& second, int64_t tokens) const override;
  bool can_take_router(const MatrixStep& matrix, const MatrixStep& router, int64_t tokens) const override;
  SmallBatch small_batch(const MatrixStep& matrix, int64_t tokens, int tile_tokens) const override;
  SmallBatch wide_batch(const MatrixStep& matrix, int64_t tokens) const override;
  bool can_dot_experts(const MatrixStep& matrix, int64_t slots) const override;
  bool can_rope_in_attention(const HeadsStep& heads, bool one_run) const override;
  bool can_rope_prompts(const HeadsStep& heads) const override;
  bool can_attend_prompts(const core::Op& attention) const override;
  bool can_multiply_bytes(const MatrixStep& m) const override;
  bool has_fast_attention(const core::Op& attention) const override;
  bool attention_writes_half(const core::Op& attention) const override;

 private:
  float* value(const BatchPlan& plan, core::ValueId id) const { // null: kNone
    if (id == kNone) return nullptr;
    return plan.is_dataflow(id) ? workspace_.dataflow_value(id, plan.dataflow_tokens) : workspace_.value(id);
  }
  int32_t* ids(const BatchPlan& plan, core::ValueId id) const { return reinterpret_cast<int32_t*>(value(plan, id)); }
  int64_t width(core::ValueId id) const { return program_.values[id].width; }
  const core::Weight& first_weight(const MatrixStep& m) const { return program_.weights[m.parts[0].weight]; }
  const FormatKernels& format_of(const MatrixStep& m) const { return format_kernels(first_weight(m).type); }

  // launch_products.cpp
  ExpertPlaces expert_places(const MatrixStep& m) const;
  MatvecArgs matvec_args(const BatchPlan& plan, const KernelCall::Product& product, int64_t tokens) const;
  RouterRows router_rows(const BatchPlan& plan, const KernelCall& call) const;
  GemmArgs gemm_args(const BatchPlan& plan, const MatrixStep& m, int64_t rows) const;
  PromptMatrices prompt_matrices(const BatchPlan& plan, const MatrixStep& m, int64_t rows) const;
  PromptResult prompt_result(const BatchPlan& plan, const KernelCall& call) const;
  BatchArgs batch_args(const BatchPlan& plan, const MatrixStep& m, int64_t tokens) const;
  BatchCut cut_batch(const MatrixStep& m, int64_t tokens, int tile_tokens) const;
  BatchCut cut_wide_batch(const MatrixStep& m, int64_t tokens) const;
  void launch_to_half(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_matvec(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_batch(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_expert_dots(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_prompt_product(const BatchPlan& plan, const KernelCall& call, const Launch& launch);
  void launch_integer_product(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_gemm(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_gate_up_glu(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;

  // launches.cpp
  RopeArgs rope_args(int32_t table) const;
  RopeStoreArgs rope_store_args(const BatchPlan& plan, const HeadsStep& heads) const;
  AttentionArgs attention_args(const BatchPlan& plan, const KernelCall& call, const core::Op& op, core::ValueId out,
                               const Launch& launch) const;
  void launch_heads(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_latent_store(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_attention(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_sum(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_norm(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_latent_attention(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void launch_index(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  OpCall op_call(const BatchPlan& plan, const KernelCall& call) const;
  void sort_experts(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;
  void fetch_experts(const BatchPlan& plan, const KernelCall& call, const Launch& launch) const;

  void observe(const BatchPlan& plan, const KernelCall& call, const Launch& launch); // observe.cpp

  // launch_exchange.cpp
  void number_exchanges(const KernelCall& call, const Launch& launch) const;
  ExchangeArgs exchange_args(const BatchPlan& plan, const KernelCall& call) const;
  void launch_exchange(const BatchPlan& plan, const KernelCall& call, const Launch& launch);
  PartExchange part_exchange(const ExchangeArgs& whole);
  void exchange_on_host(const ExchangeArgs& args, const Launch& launch);

  const core::Program& program_;
  const core::ExecutorConfig& config_;
  const DeviceContext& context_;
  const DeviceWeights& weights_;
  const FoldedRouters& routers_;
  const ExpertStore& experts_;
  const KvCache& cache_;
  const StateMemory& states_;
  const Workspace& workspace_;
  const BatchMemory& batch_;
  const DecodeLoop& decoding_;
  PinnedMemory observed_;                  // where observe() copies inputs to
  PinnedMemory exchanged_;                 // where exchange_on_host() has them
  std::unique_ptr<ExchangeStream> beside_; // once there are parts to exchange
};

} // namespace ridge::kernels::cuda
