// Table rows for a stream's last tokens: a block per sequence finds their numbers, embed's kernel decodes them.
#include "core/host_device/ngram.h"
#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256;

struct NgramArgs {
  const int32_t *tokens, *hash; // [tokens]; ngram.h
  float* state;                 // [streams][length - 1]
  int32_t* rows;                // [tokens][heads]
  int length, heads_per_length, heads;
  int32_t end_token;
  Batch batch;
};

__global__ void ngram_rows_kernel(const __grid_constant__ NgramArgs args, Stamp* stamps) {
  __shared__ int32_t history[core::kMaxNgram]; // latest first; -1: none
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.x)};
  const bool one = args.batch.kind == Sequences::Kind::one; // tokens are consecutive
  const int begin = sequence.next(-1), before_all = args.length - 1;
  if (begin >= args.batch.tokens) return;
  float* state = args.state + int64_t{args.batch.streams[begin]} * before_all;
  if (threadIdx.x < before_all)
    history[threadIdx.x] = sequence.starts(begin) ? -1 : static_cast<int32_t>(state[threadIdx.x]) - 1;
  __syncthreads();
  const auto write_row = [&](int token, int head) {
    const auto before = [&](int i) {
      const int in_batch = one ? token - begin : 0;
      return i <= in_batch ? args.tokens[token - i] : history[i - in_batch - 1];
    };
    int32_t ngram[core::kMaxNgram];
    core::make_ngram(args.tokens[token], before, args.length, args.end_token, ngram);
    args.rows[int64_t{token} * args.heads + head] =
        core::ngram_row(args.hash, ngram, args.length, args.heads_per_length, head);
  };
  if (one) {
    for (int i = threadIdx.x; i < args.batch.tokens * args.heads; i += kThreads)
      write_row(i / args.heads, i % args.heads);
    __syncthreads();
  }
  // For consecutive tokens only the last few matter.
  for (int t = one ? max(begin, args.batch.tokens - before_all) : begin; t < args.batch.tokens; t = sequence.next(t)) {
    for (int head = threadIdx.x; head < args.heads && !one; head += kThreads) write_row(t, head);
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = before_all - 1; i > 0; --i) history[i] = history[i - 1];
      history[0] = args.tokens[t];
    }
    __syncthreads();
  }
  if (threadIdx.x < before_all) state[threadIdx.x] = static_cast<float>(history[threadIdx.x] + 1);
}

} // namespace

void launch_ngram_embed(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::NgramParams>(call.op.params);
  const core::Weight& table = call.weight(0);
  auto* rows = reinterpret_cast<int32_t*>(call.out[1]);
  const int heads = static_cast<int>(params.heads());
  const NgramArgs args = {call.token_ids,
                          reinterpret_cast<const int32_t*>(call.weight_data[1]),
                          call.state,
                          rows,
                          static_cast<int>(params.length),
                          static_cast<int>(params.heads_per_length),
                          heads,
                          params.end_token,
                          {call.positions, call.streams, call.tokens, call.sequences.kind}};
  launch(ngram_rows_kernel, call.sequences.count, kThreads, 0, args, launch.stamps());
  format_kernels(table.type).embed(launch, call.weight_data[0], table.cols, rows, call.tokens * heads, call.out[0]);
}

} // namespace ridge::kernels::cuda
