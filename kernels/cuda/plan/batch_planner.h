// What makes the plan of a batch: goes through the steps and chooses kernels. batch_products.cpp has the matrices.
#pragma once

#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/plan/folded_routers.h"

#include <optional>

namespace ridge::kernels::cuda {

class BatchPlanner {
  using ValueId = core::ValueId;

 public:
  BatchPlanner(const PlanInputs& in, const PlanShape& shape);

  BatchPlan run();

 private:
  // Where a gather of one token's row has nothing to do: its input, which is written as its output at once.
  struct Gathered {
    ValueId from = kNone, to = kNone;
  };

  const PlanShape& shape() const { return batch_.shape; }
  bool overlaps() const { return in_.overlap && in_.limits.overlap; }
  int64_t width(ValueId id) const { return in_.program.values[id].width; }
  int64_t rows_of(ValueId id) const { return in_.program.values[id].gathered ? shape().outputs : shape().tokens; }
  const core::Weight& weight(core::WeightId id) const { return in_.program.weights[id]; }
  void choose_ways();
  void choose_way(const std::vector<int32_t>& steps);
  std::optional<Way> forced_way(const std::vector<int32_t>& steps) const;
  Way way_of_experts(ValueId ids) const;
  // The tokens of a tile of sorted experts.
  static int expert_tile(Way way, int64_t slots, int64_t experts) {
    return way == Way::wide ? sorted_wide_tile(slots, experts) : tile_of(way);
  }
  ValueId placed(ValueId id) const { return id != kNone && id == gathered_.from ? gathered_.to : id; }

  bool has_rows(const Step& step) const {
    return shape().outputs > 0 || step.outputs.empty() || !in_.program.values[step.outputs[0]].gathered;
  }
  Gathered gathered_behind(size_t step) const;
  void add_step(const Step& step);
  void add_elements(Kernel kernel, const Step& step);
  bool joins_product(const core::Op& op);
  void add_op(const Step& step);
  void number_exchanges();
  void add_matrix(MatrixStep m, const core::Op& op, Way way);
  void add_product(const MatrixStep& m, int64_t rows, Way way);
  void add_prompt(const MatrixStep& m, int64_t rows, bool reads_tiles);
  void add_experts(const MatrixStep& m, int64_t rows, Way way);
  void add_matvec(const MatrixStep& m, int64_t rows);
  void add_heads(HeadsStep heads);
  void leave_room(const KernelCall& attention);
  void add_latent(const LatentStep& latent);
  void add_attention(const core::Op& op);
  void add_attention(const core::Op& op, const TokenRun& rows, bool one_run);
  void write_half(KernelCall& attention);
  bool activates_product(const core::Op& op);
  void write_tiles(KernelCall& product);
  bool norms_input(const MatrixStep& m) const;
  void add_small_batch(KernelCall batch, const KernelChoices::SmallBatch& fit);
  void convert(const MatrixStep& m, int64_t rows, int64_t cols, HalfLayout layout);
  const MatrixStep* next_matrix(ValueId x) const;
  Way next_way() const { return ways_[step_ + 1]; } // where the next step is a matrix
  bool can_leave_sums(const MatrixStep& m) const;
  void add_input(KernelCall& batch, const MatrixStep& m, int64_t rows);
  void write_half(KernelCall& batch, const MatrixStep& m, int64_t slots);
  void forget_overwritten(ValueId id);

  // A call of this step.
  KernelCall call(Kernel kernel) const {
    KernelCall call{kernel};
    call.first_step = call.step = static_cast<int32_t>(step_);
    if (folds(step_ + 1)) call.step += 2; // its scores and the choice by them come with this one
    call.gathers = gathered_.from != kNone;
    return call;
  }
  KernelCall::Product product(const MatrixStep& m) const {
    const bool fetched = in_.experts_on_host && m.ids != kNone; // by a kernel in front
    return {m, dataflow_input() && !fetched};
  }
  KernelCall product_call(Kernel kernel, const MatrixStep& m, int64_t rows) const {
    KernelCall made = call(kernel);
    made.products = {product(m)};
    made.rows = rows;
    return made;
  }
  // Whether the step is a router whose scores, and the `route` behind it, come with the product in front of it.
  bool folds(size_t step) const {
    return step < steps_.size() && steps_[step].folded && batch_.dataflow_tokens > 0 &&
           folds_routers(in_.config, in_.limits) &&
           in_.kernels.can_take_router(steps_[step - 1].matrix, steps_[step].matrix, shape().tokens);
  }
  bool looks_ahead(const core::Op& attention) const {
    const auto* params = std::get_if<core::AttentionParams>(&attention.params);
    return params && sees_ahead(*params, shape());
  }
  bool dataflow_input() const { return batch_.dataflow_tokens > 0 && steps_[step_].dataflow_input; }
  // No kernel of the first step starts before the batch in front of it is done: attention reads positions and caches
  // early, and recurrent ops their state.
  void add(KernelCall call) {
    const bool is_kernel = call.kernel != Kernel::clear_dataflow && call.kernel != Kernel::observe;
    call.overlap = is_kernel && overlaps() && launched_ && call.first_step > 0;
    launched_ |= is_kernel;
    batch_.calls.push_back(std::move(call));
  }

  const PlanInputs& in_;
  const std::vector<Step>& steps_;
  std::vector<bool> sibling_follows_; // by step
  std::vector<Way> ways_;             // by step; of matrices
  BatchPlan batch_;
  bool launched_ = false;
  size_t step_ = 0; // that calls are added for

  Gathered gathered_; // of this step
  struct Converted {
    ValueId x;
    core::WeightId norm;
    int64_t cols;
    HalfLayout layout;
    ValueId ids = kNone;   // by which it is sorted
    bool unscaled = false; // attention wrote it
    bool operator==(const Converted&) const = default;
  };
  std::optional<Converted> converted_; // what the memory for converted inputs has; several matrices may want the same
  std::optional<KernelCall> summed_;   // whose sums the next conversion adds up
  ValueId half_of_ = kNone;            // what a product wrote as f16, too
  ValueId tiled_ = kNone;              // what a prompt's product wrote as f16 in the value's memory
  std::optional<size_t> clearer_;      // among calls: a conversion behind the last reader of such a value
  std::optional<KernelCall> matvec_;   // a product that may be launched together with the sibling behind it
  std::vector<KernelCall::Product> prompt_products_; // those that may be launched with siblings
  bool sibling_runs_ = false;                        // the small batch before is this one's sibling
  int64_t exchanges_ = 0;
};

} // namespace ridge::kernels::cuda
