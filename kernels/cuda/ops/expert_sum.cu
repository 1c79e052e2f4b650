// Sums of experts by shares, and of further terms.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

template <int kColumns>
struct Columns {
  float x[kColumns] = {};

  Columns() = default;
  __device__ __forceinline__ explicit Columns(const float* from) {
    if constexpr (kColumns == 4)
      put(x, *reinterpret_cast<const float4*>(from));
    else
      x[0] = load_latest(from);
  }
  __device__ __forceinline__ void add(float factor, const Columns& term) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) x[c] += factor * term.x[c];
  }
  __device__ __forceinline__ void store(float* to) const {
    if constexpr (kColumns == 4)
      *reinterpret_cast<float4*>(to) = {x[0], x[1], x[2], x[3]};
    else
      store_latest(to, x[0]);
  }
};

// Reloads values that a running kernel has not stored yet (ptx.cuh).
template <int kCount, typename Address>
__device__ __forceinline__ void await(float (&values)[kCount], const Address& address) {
  while (is_sentinel(values))
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (is_sentinel(values[i])) values[i] = load_latest(address(i));
}

template <int kColumns, bool kDataflow>
__device__ __forceinline__ Columns<kColumns> other_rows(const SumArgs::Term& term, const float* factors, const float* x,
                                                        int64_t width) {
  constexpr int kBatch = 8;
  Columns<kColumns> sum;
  for (int s = 1; s < term.count; s += kBatch) {
    float factor[kBatch];
    Columns<kColumns> value[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      factor[i] = s + i < term.count ? load_latest(factors + s + i) : 0;
      if (s + i < term.count) value[i] = Columns<kColumns>(x + (s + i) * width);
    }
    if constexpr (kDataflow) {
      float first[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) first[i] = value[i].x[0];
      await(first, [&](int i) { return x + (s + i) * width; });
      await(factor, [&](int i) { return factors + s + i; });
#pragma unroll
      for (int i = 0; i < kBatch; ++i) value[i].x[0] = first[i];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) sum.add(factor[i], value[i]);
  }
  return sum;
}

// Grid: columns, sums. No division precedes the first loads.
template <int kColumns, bool kDataflow>
__global__ void sum_kernel(const __grid_constant__ SumArgs args, Stamp* stamps) {
  static_assert(!kDataflow || kColumns == 1);
  constexpr int kTerms = SumArgs::kMaxTerms;
  const OverlappingWork work(stamps);
  const int64_t col = first_index() * kColumns;
  if (col >= args.width) return work.wait();
#pragma unroll
  for (const SumArgs::Term& term : args.terms) // loads arguments early
    asm volatile("" ::"l"(term.x), "l"(term.factors), "r"(term.count), "f"(term.scale));
  if (!kDataflow) work.wait();
  for (int64_t at = blockIdx.y; at < args.rows * args.sums; at += gridDim.y) {
    const int64_t token = args.sums == 1 ? at : at / args.sums;
    const auto row_of = [&](int t) { return args.terms[t].x + token * args.terms[t].count * args.width + col; };
    const auto factors_of = [&](int t) { return args.terms[t].factors + at * args.terms[t].count; };

    Columns<kColumns> x[kTerms], sum;
    float factor[kTerms];
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      if (t < args.count) x[t] = Columns<kColumns>(row_of(t));
      factor[t] = t < args.count && args.terms[t].factors ? load_latest(factors_of(t)) : 1;
    }
    for (int t = 0; t < args.count; ++t)
      if (const SumArgs::Term& term = args.terms[t]; term.count > 1)
        sum.add(term.scale, other_rows<kColumns, kDataflow>(term, factors_of(t), row_of(t), args.width));
    if constexpr (kDataflow) {
      float first[kTerms];
#pragma unroll
      for (int t = 0; t < kTerms; ++t) first[t] = x[t].x[0];
      await(first, row_of);
      await(factor, factors_of);
#pragma unroll
      for (int t = 0; t < kTerms; ++t) x[t].x[0] = first[t];
      stamp(stamps, kPredecessorDone);
    }
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      if (const SumArgs::Term& term = args.terms[t]; t < args.count)
        sum.add(term.scale * (term.gated ? sigmoid(factor[t]) : factor[t]), x[t]);
    sum.store(args.out + at * args.width + col);
  }
  if (kDataflow) wait_for_predecessor(); // successors rely on it (ptx.cuh)
}

template <int kColumns, bool kDataflow>
void launch_columns(const Launch& launch, const SumArgs& args) {
  constexpr int kBlockColumns = kElementThreads * kColumns;
  const auto blocks = static_cast<unsigned>((args.width + kBlockColumns - 1) / kBlockColumns);
  const auto sums =
      static_cast<unsigned>(std::clamp<int64_t>(args.rows * args.sums, 1, launch.sm_count * 8 / blocks + 1));
  launch(sum_kernel<kColumns, kDataflow>, dim3(blocks, sums), kElementThreads, 0, args, launch.stamps());
}

} // namespace

// Many sums: four columns per thread, for wide loads; few: a thread per column.
void launch_sum(const Launch& launch, const SumArgs& args) {
  if (args.dataflow_input) return launch_columns<1, true>(launch, args);
  const bool wide = args.rows * args.sums >= 64 && args.width % 4 == 0;
  wide ? launch_columns<4, false>(launch, args) : launch_columns<1, false>(launch, args);
}

void launch_expert_sum(const Launch& launch, const OpCall& call) {
  const int64_t used = std::get<core::ExpertParams>(call.op.params).used, sums = call.in_width(1) / used;
  launch_sum(launch, {.terms = {{call.in[0], call.in[1], static_cast<int>(used)}},
                      .count = 1,
                      .out = call.out[0],
                      .rows = call.rows,
                      .width = call.out_width(0) / sums,
                      .sums = sums});
}

} // namespace ridge::kernels::cuda
