// Launches a batch plan's calls, cut as the plan says. Attention is split here, by the context's length; gemm and bytes
// choose tiles in formats/format_kernels.cuh.
#pragma once

#include "kernels/cuda/cache/kv_cache.h"
#include "kernels/cuda/exchange/exchange_memory.h"
#include "kernels/cuda/exchange/nccl_rank.h"
#include "kernels/cuda/executor/batch_memory.h"
#include "kernels/cuda/executor/decode_loop.h"
#include "kernels/cuda/executor/device_weights.h"
#include "kernels/cuda/executor/folded_routers.h"
#include "kernels/cuda/executor/packed_adapters.h"
#include "kernels/cuda/executor/workspace.h"
#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/plan/batch_plan.h"

namespace ridge::kernels::cuda {

struct SumStream {
  Stream stream{-2}; // a priority
  Event sent, summed;
};

class KernelLauncher {
 public:
  // All must outlive the launcher.
  KernelLauncher(const core::Program& program, const core::ExecutorConfig& config, const DeviceContext& context,
                 const DeviceWeights& weights, const FoldedRouters& routers, const PackedAdapters& adapters,
                 const ExpertStore& experts, const KvCache& cache, const StateMemory& states,
                 const Workspace& workspace, const BatchMemory& batch, const DecodeLoop& decoding)
      : program_(program), config_(config), context_(context), weights_(weights), routers_(routers),
        adapters_(adapters), experts_(experts), cache_(cache), states_(states), workspace_(workspace), batch_(batch),
        decoding_(decoding) {}

  void launch(const BatchPlan& plan, const KernelCall& call, const Launch& launch);
  void bound_products(const Plan& plan, const Launch& launch) const;
  const int32_t* chosen_experts(const BatchPlan& plan, const FetchExperts& call) const { return ids(plan, call.ids); }

  // By step.
  std::vector<AttentionFit> attention_fits(const Plan& plan) const;

 private:
  float* value(const BatchPlan& plan, core::ValueId id) const { // null: kNone
    if (id == kNone) return nullptr;
    if (plan.is_dataflow(id)) return workspace_.dataflow_value(id, plan.dataflow_tokens, plan.adapted);
    return plan.adapted ? workspace_.adapted_value(id) : workspace_.value(id);
  }
  int32_t* ids(const BatchPlan& plan, core::ValueId id) const { return reinterpret_cast<int32_t*>(value(plan, id)); }
  int64_t width(core::ValueId id) const { return program_.values[id].width; }
  const core::Weight& first_weight(const MatrixStep& m) const { return program_.weights[m.parts[0].weight]; }
  const FormatKernels& format_of(const MatrixStep& m) const { return format_kernels(first_weight(m).type); }

  // Defined in launches.cpp, launch_products.cpp, launch_exchange.cpp and observe.cpp.
  void run(const BatchPlan& plan, const ClearDataflow& call, const Launch& launch);
  void run(const BatchPlan& plan, const Observe& call, const Launch& launch);
  void run(const BatchPlan& plan, const Matvec& call, const Launch& launch);
  void run(const BatchPlan& plan, const MatvecPair& call, const Launch& launch);
  void run(const BatchPlan& plan, const MatvecRouter& call, const Launch& launch);
  void run(const BatchPlan& plan, const SmallBatch& call, const Launch& launch);
  void run(const BatchPlan& plan, const ExpertDots& call, const Launch& launch);
  void run(const BatchPlan& plan, const PromptProduct& call, const Launch& launch);
  void run(const BatchPlan& plan, const IntegerProduct& call, const Launch& launch);
  void run(const BatchPlan& plan, const Gemm& call, const Launch& launch);
  void run(const BatchPlan& plan, const GateUpGlu& call, const Launch& launch);
  void run(const BatchPlan& plan, const ConvertInput& call, const Launch& launch);
  void run(const BatchPlan& plan, const SortExperts& call, const Launch& launch);
  void run(const BatchPlan& plan, const FetchExperts& call, const Launch& launch);
  void run(const BatchPlan& plan, const ReceiveExperts& call, const Launch& launch);
  void run(const BatchPlan& plan, const RopeStore& call, const Launch& launch);
  void run(const BatchPlan& plan, const PromptRope& call, const Launch& launch);
  void run(const BatchPlan& plan, const LatentStore& call, const Launch& launch);
  void run(const BatchPlan& plan, const Attention& call, const Launch& launch);
  void run(const BatchPlan& plan, const PlainAttention& call, const Launch& launch);
  void run(const BatchPlan& plan, const PromptAttention& call, const Launch& launch);
  void run(const BatchPlan& plan, const RopeAttention& call, const Launch& launch);
  void run(const BatchPlan& plan, const LatentAttention& call, const Launch& launch);
  void run(const BatchPlan& plan, const PlainLatentAttention& call, const Launch& launch);
  void run(const BatchPlan& plan, const IndexChoice& call, const Launch& launch);
  void run(const BatchPlan& plan, const Sum& call, const Launch& launch);
  void run(const BatchPlan& plan, const Norm& call, const Launch& launch);
  void run(const BatchPlan& plan, const PlainOp& call, const Launch& launch);
  void run(const BatchPlan& plan, const NumberExchanges& call, const Launch& launch);
  void run(const BatchPlan& plan, const Exchange& call, const Launch& launch);
  void run(const BatchPlan& plan, const Sample& call, const Launch& launch);

  // launch_products.cpp
  ExpertPlaces expert_places(const MatrixStep& m) const;
  MatvecArgs matvec_args(const BatchPlan& plan, const Product& product, int64_t tokens) const;
  RouterRows router_rows(const BatchPlan& plan, const MatvecRouter& call) const;
  GemmArgs gemm_shape(const MatrixStep& m, int64_t rows) const;
  GemmArgs gemm_args(const BatchPlan& plan, const MatrixStep& m, int64_t rows) const;
  PromptResult prompt_result(const BatchPlan& plan, const PromptProduct& call) const;
  BatchArgs batch_args(const BatchPlan& plan, const MatrixStep& m, int64_t tokens) const;

  // launch_adapters.cpp
  AdapterArgs adapter_args(const BatchPlan& plan, const MatrixStep& m) const;
  std::vector<PromptAdapter> prompt_adapters(const PromptProduct& call) const; // by product
  // Computes more columns of x, and returns their number.
  int adapt_prompt(const PromptProduct& call, std::span<const PromptAdapter> adapters, const GemmArgs& product,
                   int log2_largest, const Launch& launch) const;

  // launches.cpp
  RopeArgs rope_args(int32_t table) const;
  RopeStoreArgs rope_store_shape(const HeadsStep& heads) const;
  RopeStoreArgs rope_store_args(const BatchPlan& plan, const RopeStore& call) const;
  AttentionFit fit_of(const core::Op& attention) const;
  bool can_rope_in_attention(const HeadsStep& heads, bool one_run) const;
  AttentionArgs attention_shape(const PlanShape& shape, const Attention& call, const Launch& launch) const;
  // Whether prompts read an f16 copy of a cache of codes.
  bool unpacks_cache(Cache cache, int heads) const;
  AttentionArgs attention_args(const BatchPlan& plan, const Attention& call, const Launch& launch) const;
  LatentArgs latent_args(const BatchPlan& plan, const LatentAttention& call, const Launch& launch) const;
  OpCall op_call(const BatchPlan& plan, const PlainOp& call) const;

  // launch_exchange.cpp
  ExchangeArgs exchange_args(const BatchPlan& plan, const Exchange& call) const;
  // Sums sent terms while the next products' weights are decoded.
  void sum_beside(const ExchangeArgs& args, const Launch& launch);
  void exchange_otherwise(const ExchangeArgs& args, const Launch& launch);

  const core::Program& program_;
  const core::ExecutorConfig& config_;
  const DeviceContext& context_;
  const DeviceWeights& weights_;
  const FoldedRouters& routers_;
  const PackedAdapters& adapters_;
  const ExpertStore& experts_;
  const KvCache& cache_;
  const StateMemory& states_;
  const Workspace& workspace_;
  const BatchMemory& batch_;
  const DecodeLoop& decoding_;
  PinnedMemory observed_;
  PinnedMemory exchanged_;
  std::unique_ptr<SumStream> sum_stream_;
};

} // namespace ridge::kernels::cuda
