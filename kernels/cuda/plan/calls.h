// The kernels that a batch's plan consists of: a struct for each kind, with what that kernel needs. Values and weights
// are numbers here, which executor/launches.h resolves to pointers.
#pragma once

#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/products/half_layout.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ridge::kernels::cuda {

// Sets all values that pass between running kernels to the sentinel.
struct ClearDataflow {
  static constexpr std::string_view kName = "clear_dataflow";
};

// No kernel: the host copies a matrix's input and shows it to the observer.
struct Observe {
  static constexpr std::string_view kName = "observe";
  MatrixStep matrix;
  const core::Op* op;
  int64_t rows;
};

// Products.

struct Product {
  MatrixStep matrix;
  bool dataflow_input = false; // its input arrives while the kernel runs
};

struct Matvec {
  static constexpr std::string_view kName = "matvec";
  Product product;
  int64_t rows;      // tokens, or slots of experts
  int left_free = 0; // multiprocessors
};
// Two matrices of different formats with the same input.
struct MatvecPair {
  static constexpr std::string_view kName = "matvec_pair";
  Product first, second;
  int64_t rows;
  int left_free = 0;
};
// With the scores of a folded router (router/folded_router.h) and the choice of experts by them.
struct MatvecRouter {
  static constexpr std::string_view kName = "matvec_router";
  Product product;
  MatrixStep router;
  int32_t router_step; // of Plan::steps
  const core::Op* route;
  int64_t rows;
};

// In tiles of a few tokens (small_batch/).
struct SmallBatch {
  static constexpr std::string_view kName = "small_batch";
  Product product;
  int64_t rows;
  int tile_tokens;
  bool wide;                                             // by products of warpgroups
  bool sibling_follows = false, follows_sibling = false; // it shares its input with the next or previous call
  bool leaves_sums = false;                              // of ranges of columns, which the next ConvertInput adds up
  bool writes_half = false, reads_half = false;          // gate and up write as f16, too, what down reads
};
// SmallBatch on the slots that each expert was chosen for.
struct ExpertBatch : SmallBatch {
  static constexpr std::string_view kName = "expert_batch";
};
// The same for few slots each, by integers.
struct ExpertDots {
  static constexpr std::string_view kName = "expert_dots";
  Product product;
  int64_t rows;
  int tile_tokens;
};

// A sum over ranks, or a join.
struct Exchange {
  static constexpr std::string_view kName = "exchange";
  const core::Op* op;
  core::ValueId x, out;
  int64_t rows;
  bool dataflow_input = false;
  int64_t place = 0; // among those of the step
};

// Matrices with the same input, by wgmma on weights that are decoded first.
struct PromptProduct {
  static constexpr std::string_view kName = "prompt_product";
  std::vector<Product> products;
  int64_t rows;
  bool writes_half = false, reads_half = false; // as f16 tiles in the memory of the value
  bool unscaled = false;                        // its input in f16 is not from ConvertInput, so its exponents say less
  std::optional<Exchange> sum = {};
};
// With activations as bytes.
struct IntegerProduct {
  static constexpr std::string_view kName = "integer_product";
  Product product;
  int64_t rows;
};
struct Gemm {
  static constexpr std::string_view kName = "gemm";
  Product product;
  int64_t rows;
};
// Behind a Gemm of gate and up.
struct GateUpGlu {
  static constexpr std::string_view kName = "gate_up_glu";
  MatrixStep matrix;
  int64_t rows;
};

// A product's input in the form that it reads, normed where the product norms.
struct ConvertInput {
  static constexpr std::string_view kName = "to_half";
  MatrixStep matrix; // whose input it is
  int64_t rows, cols;
  HalfLayout layout;
  int64_t cleared = 0; // largest values per row, for the next product that writes_half
  struct Sums {        // that the product in front left
    MatrixStep matrix;
    int tile_tokens;
    bool wide;
  };
  std::optional<Sums> sums = {};
  int sorted_tile = 0;                  // tokens of a tile of HalfLayout::sorted_wide
  const core::Op* layer_norm = nullptr; // in front
};

// Experts.

// Slots in the order of their experts, behind `route`.
struct SortExperts {
  static constexpr std::string_view kName = "sort_experts";
  core::ValueId ids;
  int64_t rows, experts; // slots, and among how many experts they are sorted
  int tile_tokens;
};
// Those in the host's memory, behind `route`.
struct FetchExperts {
  static constexpr std::string_view kName = "fetch_experts";
  core::ValueId ids;
  int64_t rows; // slots
};

// Attention.

struct RopeStore {
  static constexpr std::string_view kName = "rope_store";
  HeadsStep heads;
  int64_t rows;
  bool dataflow_input = false;
};
struct PromptRope : RopeStore {
  static constexpr std::string_view kName = "prompt_rope";
};
struct LatentStore {
  static constexpr std::string_view kName = "latent_store";
  LatentStep latent; // with the rotations before it
  int64_t rows;
};

// `rows` tokens of the batch, from first_row on.
struct Attention {
  static constexpr std::string_view kName = "attention";
  const core::Op* op;
  core::ValueId out;
  int64_t rows;
  int64_t first_row = 0;
  bool one_run = false;                // the rows are a TokenRun
  std::optional<HalfLayout> half = {}; // it writes what ConvertInput would
};
// For any head size and cache type, and for chosen positions.
struct PlainAttention : Attention {
  static constexpr std::string_view kName = "plain_attention";
};
struct PromptAttention : Attention {
  static constexpr std::string_view kName = "prompt_attention";
};
// RopeStore and Attention in one.
struct RopeAttention {
  static constexpr std::string_view kName = "rope_attention";
  RopeStore rope;
  Attention attention;
};
struct LatentAttention {
  static constexpr std::string_view kName = "latent_attention";
  const core::Op* op;
  core::ValueId out;
  int64_t rows;
};
// For any widths and cache type, for chosen positions, and for entries beside a window.
struct PlainLatentAttention : LatentAttention {
  static constexpr std::string_view kName = "plain_latent_attention";
};
struct IndexChoice {
  static constexpr std::string_view kName = "index_choice";
  const core::Op* op;
  core::ValueId out;
  int64_t rows;
};

// Elements.

// Additions behind experts.
struct Sum {
  static constexpr std::string_view kName = "sum";
  SumStep sum;
  core::ValueId out;
  int64_t rows;
  bool dataflow_input = false;
};
struct Norm {
  static constexpr std::string_view kName = "norm";
  NormStep norm;
  core::ValueId out;
  int64_t rows;
  bool dataflow_input = false;
};
// An op as it is.
struct PlainOp {
  static constexpr std::string_view kName = "op";
  const core::Op* op;
  std::vector<core::ValueId> outputs;
  int64_t rows;
};

// Before the exchanges of a step. Numbers go on from step to step, so they are made on the device.
struct NumberExchanges {
  static constexpr std::string_view kName = "number_exchanges";
  int64_t exchanges;
};
// The choice of a token by the sampler chain.
struct Sample {
  static constexpr std::string_view kName = "sample";
  int64_t output; // whose logits
};

using CallWork =
    std::variant<ClearDataflow, Observe, Matvec, MatvecPair, MatvecRouter, SmallBatch, ExpertBatch, ExpertDots,
                 PromptProduct, IntegerProduct, Gemm, GateUpGlu, ConvertInput, SortExperts, FetchExperts, RopeStore,
                 PromptRope, LatentStore, Attention, PlainAttention, PromptAttention, RopeAttention, LatentAttention,
                 PlainLatentAttention, IndexChoice, Sum, Norm, PlainOp, NumberExchanges, Exchange, Sample>;

struct KernelCall {
  int32_t first_step = 0, step = 0; // of Plan::steps: what it computes, up to `step`; a profile counts it to `step`
  CallWork work;
  bool overlap = false; // may start while its predecessor runs
  bool gathers = false; // one token: the result goes where the gather behind it would have copied it to

  template <typename Work>
  const Work* get() const {
    return std::get_if<Work>(&work);
  }
  template <typename Work>
  Work* get() {
    return std::get_if<Work>(&work);
  }
  std::string_view name() const {
    return std::visit([](const auto& of) { return std::decay_t<decltype(of)>::kName; }, work);
  }
};

// For people (plan_text.cpp). The matrices of a call's products, or the one whose input it prepares and the one whose
// sums it adds up.
std::vector<const MatrixStep*> matrices_of(const KernelCall& call);
// Whether the call, or a product of it, takes values that arrive while it runs.
bool has_dataflow_input(const KernelCall& call);

} // namespace ridge::kernels::cuda
