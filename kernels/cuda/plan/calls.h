// The kernels of a plan and their arguments. Values and weights are numbers, resolved by executor/launches.h.
#pragma once

#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/products/cuts.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ridge::kernels::cuda {

struct ClearDataflow {
  static constexpr std::string_view kName = "clear_dataflow";
};

// No kernel: the host shows the input to the observer.
struct Observe {
  static constexpr std::string_view kName = "observe";
  MatrixStep matrix;
  const core::Op* op;
  int64_t rows;
};

struct Product {
  MatrixStep matrix;
  bool dataflow_input = false; // arrives while the kernel runs
};

// A sum over ranks, or a join.
struct Exchange {
  static constexpr std::string_view kName = "exchange";
  const core::Op* op;
  core::ValueId x, out;
  int64_t rows;
  bool dataflow_input = false;
  bool sent = false;         // by the product before, where ranks exchange packets
  int64_t index_in_step = 0; // among the step's exchanges
};

struct Matvec {
  static constexpr std::string_view kName = "matvec";
  Product product;
  int64_t rows;
  int free_multiprocessors = 0; // which get no block
  std::variant<MatvecCut, AdaptedCut> cut = {};
  std::optional<Exchange> sends = {}; // the next call, whose packets this kernel sends
};
struct MatvecPair {
  static constexpr std::string_view kName = "matvec_pair";
  Product first, second;
  int64_t rows;
  int free_multiprocessors = 0;
  PairCut cut = {};
};
// A matvec that also computes a folded router's scores and chooses experts (router/folded_router.h).
struct MatvecRouter {
  static constexpr std::string_view kName = "matvec_router";
  Product product;
  MatrixStep router;
  int32_t router_step;
  const core::Op* route;
  int64_t rows;
  RouterCut cut;
};

struct SmallBatch {
  static constexpr std::string_view kName = "small_batch";
  Product product;
  int64_t rows;
  int tile_tokens;
  bool wide;
  TileCut cut;
  bool sibling_follows = false, follows_sibling = false; // same input as the next or previous call
  bool leaves_sums = false;                              // for the next ConvertInput to add
  bool writes_half = false, reads_half = false;          // f16, from gate and up to down
};
struct ExpertBatch : SmallBatch {
  static constexpr std::string_view kName = "expert_batch";
};
// Integer dot products, for few slots per expert.
struct ExpertDots {
  static constexpr std::string_view kName = "expert_dots";
  Product product;
  int64_t rows;
  int tile_tokens;
  DotsCut cut;
};

// wgmma on weights decoded to memory.
struct PromptProduct {
  static constexpr std::string_view kName = "prompt_product";
  std::vector<Product> products;
  int64_t rows;
  bool writes_half = false, reads_half = false; // as f16 tiles in the value's memory
  bool has_loose_bound = false;                 // the input's exponents bound it less tightly than ConvertInput's
  std::optional<Exchange> sum = {};
};
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
struct GateUpGlu {
  static constexpr std::string_view kName = "gate_up_glu";
  MatrixStep matrix;
  int64_t rows;
};

// Writes a product's input in the form that it reads, normed if the product norms.
struct ConvertInput {
  static constexpr std::string_view kName = "to_half";
  MatrixStep matrix;
  int64_t rows, cols;
  HalfLayout layout;
  int64_t cleared = 0;                 // maxima per row to clear for the next writes_half
  std::optional<SmallBatch> sums = {}; // whose sums it adds first
  int sorted_tile = 0;
  const core::Op* layer_norm = nullptr; // applied to the input first
};

struct SortExperts {
  static constexpr std::string_view kName = "sort_experts";
  core::ValueId ids;
  int64_t rows, experts;
  int tile_tokens;
  bool of_heads = false; // every slot's expert is known; nothing wrote ids
};
// Copies chosen experts from host memory. With x, asks the CPU to compute some of the missing ones instead.
struct FetchExperts {
  static constexpr std::string_view kName = "fetch_experts";
  core::ValueId ids;
  int64_t rows; // slots
  core::ValueId x = kNone;
  int64_t x_rows = 0;
};
// Puts the CPU's results in place of the GPU's.
struct ReceiveExperts {
  static constexpr std::string_view kName = "receive_experts";
  core::ValueId ids, out;
  int64_t rows; // slots
};

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
  LatentStep latent;
  int64_t rows;
};

struct Attention {
  static constexpr std::string_view kName = "attention";
  const core::Op* op;
  core::ValueId out;
  int64_t rows;
  int64_t first_row = 0;
  bool one_run = false;                // a TokenRun
  std::optional<HalfLayout> half = {}; // also writes this layout
};
// For any head size and cache type, and for attention to chosen positions.
struct PlainAttention : Attention {
  static constexpr std::string_view kName = "plain_attention";
};
struct PromptAttention : Attention {
  static constexpr std::string_view kName = "prompt_attention";
};
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
// For any widths and cache type, and for attention to chosen positions.
struct PlainLatentAttention : LatentAttention {
  static constexpr std::string_view kName = "plain_latent_attention";
};
struct IndexChoice {
  static constexpr std::string_view kName = "index_choice";
  const core::Op* op;
  core::ValueId out;
  int64_t rows;
};

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
struct PlainOp {
  static constexpr std::string_view kName = "op";
  const core::Op* op;
  std::vector<core::ValueId> outputs;
  int64_t rows;
};

// The counter continues from step to step, so it lives on the device.
struct NumberExchanges {
  static constexpr std::string_view kName = "number_exchanges";
  int64_t exchanges;
};
struct Sample {
  static constexpr std::string_view kName = "sample";
  int64_t output;
};

using CallWork = std::variant<ClearDataflow, Observe, Matvec, MatvecPair, MatvecRouter, SmallBatch, ExpertBatch,
                              ExpertDots, PromptProduct, IntegerProduct, Gemm, GateUpGlu, ConvertInput, SortExperts,
                              FetchExperts, ReceiveExperts, RopeStore, PromptRope, LatentStore, Attention,
                              PlainAttention, PromptAttention, RopeAttention, LatentAttention, PlainLatentAttention,
                              IndexChoice, Sum, Norm, PlainOp, NumberExchanges, Exchange, Sample>;

struct KernelCall {
  int32_t first_step = 0, step = 0; // first and last step computed; profiles attribute it to the last
  CallWork work;
  bool overlap = false;
  bool writes_gathered = false; // writes the following gather's output (one token)

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

// The matrices of its products, or those whose input it prepares or whose sums it adds.
std::vector<const MatrixStep*> matrices_of(const KernelCall& call);
bool has_dataflow_input(const KernelCall& call);

} // namespace ridge::kernels::cuda
