// Passes over a batch's calls, each changing or removing neighbours that can share work.
#include "kernels/cuda/exchange/exchange.h"
#include "kernels/cuda/exchange/sum_mail.h"
#include "kernels/cuda/plan/batch_planning.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

using core::OpKind;

void remove(Calls& calls, size_t i) { calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(i)); }

// The index of the preceding call that is no Observe; `i` if there is none.
size_t before(const Calls& calls, size_t i) {
  size_t found = i;
  while (found > 0 && calls[--found].get<Observe>()) {
  }
  return calls[found].get<Observe>() ? i : found;
}

// Calls join(previous, call) for each two calls that follow one another, apart from Observe; where it returns true, the
// call has taken over the previous one's work.
void join_neighbours(Calls& calls, const auto& join) {
  for (size_t i = 1; i < calls.size(); ++i) {
    const size_t at = before(calls, i);
    if (at == i || !join(calls[at], calls[i])) continue;
    calls[i].first_step = calls[at].first_step;
    remove(calls, at);
    --i;
  }
}

void pair_matvecs(const Planning& p, Calls& calls) {
  if (p.in.config.exact || p.in.config.batch_invariant) return;
  join_neighbours(calls, [&](KernelCall& previous, KernelCall& call) {
    const Matvec *first = previous.get<Matvec>(), *second = call.get<Matvec>();
    const bool fits =
        first && second && first->rows <= kDataflowTokens && first->product.matrix.ids == kNone &&
        p.sibling_follows[previous.step] &&
        cut_pair(p.in.limits, p.desc(first->product.matrix, first->rows), p.desc(second->product.matrix, second->rows));
    if (fits) call.work = MatvecPair{first->product, second->product, second->rows};
    return fits;
  });
}

void join_prompt_siblings(const Planning& p, Calls& calls) {
  join_neighbours(calls, [&](KernelCall& previous, KernelCall& call) {
    PromptProduct *first = previous.get<PromptProduct>(), *second = call.get<PromptProduct>();
    const bool fits = first && second && p.sibling_follows[previous.step];
    if (fits) second->products.insert(second->products.begin(), first->products.begin(), first->products.end());
    return fits;
  });
}

// The sum over ranks that takes the product's result, or null.
const Exchange* sum_behind(const MatrixStep& m, const KernelCall& next) {
  const auto* sum = next.get<Exchange>();
  return sum && sum->op->kind == OpKind::all_reduce && m.ids == kNone && m.parts.size() == 1 && m.parts[0].out == sum->x
             ? sum
             : nullptr;
}

// The product mails its result to the other ranks itself (exchange/sum_mail.h).
bool absorb_exchange(const Planning& p, PromptProduct& product, const KernelCall& next) {
  const Exchange* sum = product.products.size() == 1 ? sum_behind(product.products[0].matrix, next) : nullptr;
  if (!sum || !summed_by_tokens(sum->rows, p.width(sum->out))) return false;
  product.sum = *sum;
  return true;
}

bool absorb_activation(const Planning& p, int32_t step, PromptProduct& product, const KernelCall& next) {
  const auto* activation = next.get<PlainOp>();
  MatrixStep& m = product.products[0].matrix;
  if (!activation || product.products.size() > 1 || activation_behind(p.in.program, p.plan, step) != activation->op)
    return false;
  // The output must not overwrite the input.
  const ValueId out = activation->op->outputs[0];
  if (product.reads_half && p.slot_of(out) == p.slot_of(m.x)) return false;
  m.glu = std::get<core::ActivationParams>(activation->op->params);
  m.parts[0].out = out;
  return true;
}

// Prompt products write f16 tiles for a sole reader, and absorb activations and sums over ranks.
void chain_prompt_products(const Planning& p, Calls& calls) {
  ValueId tiled = kNone; // written by the previous product
  for (size_t i = 0; i < calls.size(); ++i) {
    auto* product = calls[i].get<PromptProduct>();
    if (!product) continue;
    MatrixStep& m = product->products[0].matrix;
    product->reads_half = m.x == std::exchange(tiled, kNone);
    if (i + 1 < calls.size() &&
        (absorb_exchange(p, *product, calls[i + 1]) || absorb_activation(p, calls[i].step, *product, calls[i + 1]))) {
      calls[i].step = calls[i + 1].step;
      remove(calls, i + 1);
    }
    const ValueId out = m.parts[0].out;
    if (!m.glu || !p.only_next_reads(calls[i].step, out) || p.next_way(calls[i].step) != ProductKernel::prompt ||
        !has_room_for_tiled_half(product->rows, p.width(out)))
      continue;
    product->writes_half = true;
    tiled = out;
  }
}

// Attention over f16 values stays in the range of f16, so it can write the layout that the next tensor-core product
// reads.
void write_attention_half(const Planning& p, Calls& calls) {
  for (KernelCall& call : calls) {
    const bool prompt = call.get<PromptAttention>();
    Attention* attention = prompt ? call.get<PromptAttention>() : call.get<Attention>();
    if (auto* rope = call.get<RopeAttention>()) attention = &rope->attention;
    if (!attention || attention->rows != p.shape.tokens || p.in.config.observer) continue;
    const ValueId out = attention->op->outputs[0];
    const MatrixStep* next = p.next_matrix(call.step, out);
    if (!next || next->norm != kNone || next->ids != kNone ||
        p.width(out) % (prompt ? kTileColumns : kGemmColumns) != 0 || !p.attention[call.step].writes_half)
      continue;
    const ProductKernel way = p.next_way(call.step);
    if (prompt && way == ProductKernel::prompt) attention->half = HalfLayout::tiles;
    if (!prompt && way == ProductKernel::wide) attention->half = HalfLayout::wide;
    if (!prompt && is_tiled(way)) attention->half = HalfLayout::interleaved;
  }
}

// Products with the same input need not wait for each other. Those that split columns do wait, since all use one
// scratch for partial sums.
void mark_siblings(const Planning& p, Calls& calls) {
  bool sibling_runs = false;
  for (KernelCall& call : calls) {
    auto* batch = call.get<SmallBatch>();
    if (!batch) continue;
    const bool alone = batch->cut.ranges > 1;
    batch->follows_sibling = !alone && sibling_runs;
    batch->sibling_follows = sibling_runs = !alone && p.sibling_follows[call.step];
  }
}

// A product that split its columns leaves its partial sums to the conversion of the next product's input.
void leave_sums(const Planning& p, Calls& calls) {
  for (KernelCall& call : calls) {
    auto* batch = call.get<SmallBatch>();
    if (!batch || p.in.config.observer || !batch->cut.leaves_sums()) continue;
    const MatrixStep& m = batch->product.matrix;
    const MatrixStep* next = p.next_matrix(call.step, m.parts[0].out);
    batch->leaves_sums = next && next->ids == kNone &&
                         (is_tiled(p.next_way(call.step)) || p.next_way(call.step) == ProductKernel::wide) &&
                         m.parts.size() == 1 && !m.glu && m.residual != kNone && p.width(m.parts[0].out) % 8 == 0;
  }
}

// Inserts the conversions of inputs, except where the buffer holds the input in the wanted layout already.
class Conversions {
 public:
  explicit Conversions(const Planning& planning) : p_(planning) {}

  Calls run(Calls calls) {
    for (KernelCall& call : calls) {
      for (; step_ < call.first_step; ++step_) forget_outputs(p_.steps[step_]);
      std::visit([&](auto& work) { visit(call, work); }, call.work);
      calls_.push_back(std::move(call));
    }
    return std::move(calls_);
  }

 private:
  struct Converted {
    ValueId x;
    core::WeightId norm;
    int64_t cols;
    HalfLayout layout;
    ValueId ids = kNone;
    bool operator==(const Converted&) const = default;
  };

  void visit(KernelCall&, const auto&) {}
  void visit(KernelCall&, const Attention& attention) { note_attention_output(attention); }
  void visit(KernelCall&, const PromptAttention& attention) { note_attention_output(attention); }
  void visit(KernelCall&, const RopeAttention& rope) { note_attention_output(rope.attention); }
  void visit(KernelCall& call, SmallBatch& batch) {
    take_input(call, batch, batch.rows, batch.wide ? HalfLayout::wide : HalfLayout::interleaved);
    if (batch.leaves_sums) sums_ = batch;
    if (!batch.cut.leaves_sums()) write_half(call, batch);
  }
  void visit(KernelCall& call, ExpertBatch& experts) {
    take_input(call, experts, inputs(experts.product.matrix, experts.rows),
               experts.wide ? HalfLayout::sorted_wide : HalfLayout::interleaved);
    write_half(call, experts);
  }
  void visit(KernelCall& call, const ExpertDots& experts) {
    const MatrixStep& m = experts.product.matrix;
    if (m.norm != kNone) convert(call, m, inputs(m, experts.rows), HalfLayout::interleaved);
  }
  void visit(KernelCall& call, PromptProduct& prompt) {
    if (!prompt.reads_half) convert(call, prompt.products[0].matrix, prompt.rows, HalfLayout::tiles);
    prompt.has_loose_bound = prompt.reads_half || has_loose_bound_;
  }
  void visit(KernelCall& call, const IntegerProduct& product) {
    convert(call, product.product.matrix, product.rows, HalfLayout::bytes);
  }
  void visit(KernelCall& call, const Gemm& product) {
    convert(call, product.product.matrix, product.rows, HalfLayout::rows);
  }

  int64_t inputs(const MatrixStep& m, int64_t slots) const {
    return has_rows_by_slot(p_.in.program, m) ? slots : slots / m.used;
  }

  void note_attention_output(const Attention& attention) {
    if (!attention.half) return;
    const ValueId out = attention.op->outputs[0];
    converted_ = {out, kNone, p_.width(out), *attention.half};
    has_loose_bound_ = true;
  }

  void take_input(const KernelCall& call, SmallBatch& batch, int64_t rows, HalfLayout layout) {
    const MatrixStep& m = batch.product.matrix;
    if (half_of_ == kNone || m.x != half_of_ || m.norm != kNone || batch.wide) return convert(call, m, rows, layout);
    batch.reads_half = true;
    half_of_ = kNone;
    maxima_clearing_call_.reset();
  }

  void write_half(const KernelCall& call, SmallBatch& batch) {
    const MatrixStep& m = batch.product.matrix;
    const MatrixStep* next = p_.next_matrix(call.step, m.parts[0].out);
    if (batch.tile_tokens > kMaxHalfTokens || !m.glu || !next || next->norm != kNone || next->ids != m.ids ||
        !maxima_clearing_call_ || !is_tiled(p_.next_way(call.step)))
      return;
    const int64_t cols = p_.first_weight(m).rows;
    if (cols % kGemmColumns != 0 || p_.first_weight(*next).cols != cols || batch.rows > half_slots(cols)) return;
    auto& conversion = *calls_[*maxima_clearing_call_].get<ConvertInput>();
    if (batch.rows % conversion.rows != 0) return;
    maxima_clearing_call_.reset();
    conversion.cleared = batch.rows / conversion.rows;
    batch.writes_half = true;
    half_of_ = m.parts[0].out;
  }

  void convert(const KernelCall& call, const MatrixStep& m, int64_t rows, HalfLayout layout) {
    const bool sorted = layout == HalfLayout::sorted_wide;
    const int64_t cols = p_.first_weight(m).cols;
    const Converted wanted = {m.x, m.norm, cols, layout, sorted ? m.ids : kNone};
    if (converted_ == wanted) return;
    converted_ = wanted;
    has_loose_bound_ = false;
    ConvertInput conversion{m, rows, cols, layout};
    int32_t first_step = call.first_step;
    if (layout == HalfLayout::tiles && norms_input(call, m)) {
      first_step = calls_.back().first_step;
      conversion.layer_norm = calls_.back().get<PlainOp>()->op;
      calls_.pop_back();
    }
    if (sorted)
      conversion.sorted_tile = sorted_wide_tile(p_.rows_of(m.x) * m.used, p_.first_weight(m).count, m.of_heads);
    conversion.sums = std::exchange(sums_, std::nullopt);
    maxima_clearing_call_ = calls_.size();
    calls_.push_back({first_step, call.first_step, std::move(conversion)});
  }

  // Whether the preceding call is a layer norm that only this product and the siblings after it read.
  bool norms_input(const KernelCall& call, const MatrixStep& m) const {
    const PlainOp* norm = calls_.empty() ? nullptr : calls_.back().get<PlainOp>();
    if (!norm || norm->op->kind != OpKind::layer_norm || norm->outputs[0] != m.x || m.norm != kNone ||
        p_.in.config.observer || p_.in.program.is_read_after(m.x))
      return false;
    const auto& [epsilon, group, centered] = std::get<core::NormParams>(norm->op->params);
    if (!centered || group != p_.width(m.x) || p_.weight(norm->op->weights[0]).cols != group ||
        group > kMaxNormedColumns)
      return false;
    size_t behind = static_cast<size_t>(call.first_step); // the siblings
    for (; behind < p_.steps.size() && p_.ways[behind] == ProductKernel::prompt; ++behind) {
      const MatrixStep* of = p_.steps[behind].matrix();
      if (!of || of->x != m.x || of->norm != kNone || of->ids != kNone) break;
    }
    const auto reads = [&](const Step& step) { return step.has_input(m.x); };
    return std::ranges::count_if(p_.steps, reads) == static_cast<std::ptrdiff_t>(behind) - call.first_step;
  }

  // Values share memory: an output may overwrite the converted value.
  void forget_outputs(const Step& step) {
    if (!p_.has_rows(step)) return;
    for (const ValueId output : step.outputs)
      for (const ValueId id : {output, p_.placed(output)}) {
        if (converted_ && id != converted_->x && p_.slot_of(id) == p_.slot_of(converted_->x)) converted_.reset();
        if (half_of_ != kNone && id != half_of_ && p_.slot_of(id) == p_.slot_of(half_of_)) half_of_ = kNone;
      }
  }

  const Planning& p_;
  Calls calls_;
  int32_t step_ = 0;
  std::optional<Converted> converted_;
  bool has_loose_bound_ = false;   // attention bounds the rows that it converts only loosely
  std::optional<SmallBatch> sums_; // the next conversion adds them
  ValueId half_of_ = kNone;        // the value that gate and up wrote in f16 for down
  // The conversion that can clear the maxima of such f16, since the last reader has finished before it.
  std::optional<size_t> maxima_clearing_call_;
};

int* free_multiprocessors(KernelCall& call) {
  if (auto* matvec = call.get<Matvec>()) return &matvec->free_multiprocessors;
  auto* pair = call.get<MatvecPair>();
  return pair ? &pair->free_multiprocessors : nullptr;
}

// Leaves multiprocessors free for kernels that start beside a product's blocks.
//
// A folded router's choosing blocks end last, so the next product avoids their multiprocessors: gpt-oss-20b on an H200,
// 1,030 -> 1,042 tokens per second.
//
// Attention's blocks do not fit beside a product's; without free multiprocessors they are ready 2 µs after its last
// block. Tokens per second with 0 / 4 / 8 free on an H200: qwen3-30b-a3b (4 KV heads) 735 / 778 / 785, an 8B (8)
// 666 / 677 / 678.
void leave_room(const Planning& p, Calls& calls) {
  if (!p.overlaps()) return;
  for (size_t i = 1; i < calls.size(); ++i) {
    const auto* router = calls[i - 1].get<MatvecRouter>();
    if (int* const left = free_multiprocessors(calls[i]); left && router) *left = static_cast<int>(router->rows);
    const auto* attention = calls[i].get<RopeAttention>();
    int* const left = free_multiprocessors(calls[i - 1]);
    if (!attention || !attention->rope.dataflow_input || !left) continue;
    int64_t rows = 0;
    for (const MatrixStep* m : matrices_of(calls[i - 1]))
      for (const MatrixStep::Part& part : m->parts) rows += p.weight(part.weight).rows;
    // otherwise the other blocks would take much longer
    if (rows < 16 * p.in.limits.sm_count) continue;
    const int64_t heads = p.in.program.kv_layers[attention->rope.heads.kv_layer].heads;
    *left = static_cast<int>(std::min<int64_t>(2 * heads, p.in.limits.sm_count / 16));
  }
}

void number_exchanges(Calls& calls) {
  int64_t exchanges = 0;
  for (KernelCall& call : calls) {
    if (auto* exchange = call.get<Exchange>()) exchange->index_in_step = exchanges++;
    if (auto* product = call.get<PromptProduct>(); product && product->sum) product->sum->index_in_step = exchanges++;
  }
  if (exchanges > 0) calls.insert(calls.begin(), {0, 0, NumberExchanges{exchanges}});
}

// A matvec sends its results, which saves the exchange's kernel from waiting for them first.
void send_from_matvecs(const Planning& p, Calls& calls) {
  for (size_t i = 1; i < calls.size(); ++i) {
    auto* matvec = calls[i - 1].get<Matvec>();
    auto* sum = calls[i].get<Exchange>();
    if (!matvec || !sum_behind(matvec->product.matrix, calls[i]) || matvec->rows != sum->rows ||
        sum->rows * p.width(sum->x) > kPacketSumFloats)
      continue;
    sum->sent = true;
    matvec->sends = *sum;
  }
}

// Cuts matvecs for the multiprocessors that they may use, or for all if those lack room.
void cut_matvecs(const Planning& p, Calls& calls) {
  const auto cut_beside = [&](int& free_multiprocessors, const auto& cut) {
    ChipLimits fewer = p.in.limits;
    fewer.sm_count -= free_multiprocessors;
    if (const auto found = cut(fewer)) return *found;
    free_multiprocessors = 0;
    return cut(p.in.limits).value();
  };
  for (KernelCall& call : calls)
    if (auto* matvec = call.get<Matvec>()) {
      ProductDesc desc = p.desc(matvec->product.matrix, matvec->rows);
      if (p.in.config.batch_invariant) desc.tokens = 1; // kernels of several round differently in formats with minima
      const auto plain = [&](const ChipLimits& chip) {
        return std::optional(cut_matvec(chip, desc, p.in.config.exact));
      };
      const auto adapted = [&](const ChipLimits& chip) { return cut_adapted(chip, desc); };
      if (matvec->product.matrix.has_changes())
        matvec->cut = cut_beside(matvec->free_multiprocessors, adapted);
      else
        matvec->cut = cut_beside(matvec->free_multiprocessors, plain);
    } else if (auto* pair = call.get<MatvecPair>()) {
      const ProductDesc first = p.desc(pair->first.matrix, pair->rows),
                        second = p.desc(pair->second.matrix, pair->rows);
      pair->cut =
          cut_beside(pair->free_multiprocessors, [&](const ChipLimits& chip) { return cut_pair(chip, first, second); });
    }
}

// The first step must wait for the previous batch: attention reads positions and caches early, recurrent ops their
// state.
void mark_overlaps(const Planning& p, Calls& calls) {
  bool launched = false;
  for (KernelCall& call : calls) {
    if (call.get<ClearDataflow>() || call.get<Observe>() || call.get<NumberExchanges>()) continue;
    call.overlap = p.overlaps() && std::exchange(launched, true) && call.first_step > 0;
  }
}

} // namespace

void run_passes(const Planning& planning, Calls& calls) {
  pair_matvecs(planning, calls);
  join_prompt_siblings(planning, calls);
  chain_prompt_products(planning, calls);
  write_attention_half(planning, calls);
  mark_siblings(planning, calls);
  leave_sums(planning, calls);
  calls = Conversions(planning).run(std::move(calls));
  leave_room(planning, calls);
  number_exchanges(calls);
  send_from_matvecs(planning, calls); // copies numbered exchanges
  cut_matvecs(planning, calls);
  mark_overlaps(planning, calls);
}

} // namespace ridge::kernels::cuda
