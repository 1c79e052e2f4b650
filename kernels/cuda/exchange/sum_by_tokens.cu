// Sums of long prompts' values, in two steps: terms go to the rank that adds up their tokens (sum_mail.h), from a
// product or from here, and sums to all. All ranks take rounded terms and sums, own ones, too: equal bits.
#include "kernels/cuda/exchange/packed.cuh"
#include "kernels/cuda/exchange/piece_mail.cuh"
#include "kernels/cuda/exchange/sum_mail.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256, kEightsPerThread = 2, kPieceEights = kThreads * kEightsPerThread;
constexpr int kTermsFlag = 0, kFirstSumFlag = 1;

// A block's view of one exchange. A group is cut into pieces of kPieceEights.
class TokenSums {
 public:
  __device__ __forceinline__ explicit TokenSums(const ExchangeArgs& args)
      : args_(args), mail_(args), width_(static_cast<int>(args.width)),
        groups_(static_cast<int>(token_groups(args.rows))), pieces_((width_ + kPieceEights - 1) / kPieceEights) {}

  __device__ __forceinline__ int pieces() const { return groups_ * pieces_; }
  __device__ __forceinline__ int pieces_per_rank() const { return (groups_ + args_.ranks - 1) / args_.ranks * pieces_; }

  __device__ __forceinline__ void send_terms(const SumMail& to, int64_t half, int piece) const {
    const int group = piece / pieces_;
    each_eight(piece - group * pieces_, [&](int at) { to.group(half, group)[at] = pack(load(group, at)); });
  }
  __device__ __forceinline__ void tell_sent() const { mail_.raise_flags(kTermsFlag); }
  __device__ __forceinline__ void wait_for_terms() const { mail_.wait_for_flags(kTermsFlag); }

  // `number`: of a piece among the rank's own.
  __device__ __forceinline__ void add_up(int number) const {
    const int turn = number / pieces_, group = turn * args_.ranks + args_.rank;
    if (group < groups_)
      each_eight(number - turn * pieces_, [&](int at) {
        const uint4 sum = pack(sum_of(group, at));
        mail_.each_other([&](int to) { place(to, args_.rank, group)[at] = sum; });
        store(group, at, unpack(sum));
      });
    mail_.raise_flags(kFirstSumFlag + number);
  }
  // The same of the other ranks.
  __device__ __forceinline__ void take_sums(int number) const {
    const int turn = number / pieces_;
    mail_.wait_for_flags(kFirstSumFlag + number);
    mail_.each_other([&](int from) {
      const int group = turn * args_.ranks + from;
      if (group >= groups_) return;
      each_eight(number - turn * pieces_,
                 [&](int at) { store(group, at, unpack(fresh(place(args_.rank, from, group) + at))); });
    });
  }

 private:
  __device__ __forceinline__ uint4* place(int owner, int from, int group) const {
    return reinterpret_cast<uint4*>(mail_.pieces(owner, from)) + int64_t{group} * width_;
  }
  template <typename Run>
  __device__ __forceinline__ void each_eight(int piece, Run&& run) const {
    const int first = piece * kPieceEights + static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kEightsPerThread; ++i)
      if (const int at = first + i * kThreads; at < width_) run(at);
  }
  __device__ __forceinline__ Eight sum_of(int group, int at) const {
    uint4 terms[kMaxRanks]; // read at once: their latencies overlap
#pragma unroll
    for (int from = 0; from < kMaxRanks; ++from)
      if (from < args_.ranks) terms[from] = fresh(place(args_.rank, from, group) + at);
    Eight sum = {};
#pragma unroll
    for (int from = 0; from < kMaxRanks; ++from)
      if (from < args_.ranks) sum = sum + unpack(terms[from]);
    return sum;
  }

  // An eight's place: its token's row, and the first column.
  struct At {
    bool there;
    int64_t first;
  };
  __device__ __forceinline__ At at(int group, int eight) const {
    const int lane = eight % kUnitEights, row = group * kGroupTokens + lane / 4;
    return {row < args_.rows, int64_t{row} * width_ + eight / kUnitEights * kUnitColumns + lane % 4 * 2};
  }
  __device__ __forceinline__ Eight load(int group, int eight) const {
    const At from = at(group, eight);
    if (!from.there) return {};
    const auto pair = [&](int i) { return *reinterpret_cast<const float2*>(args_.x + from.first + 8 * i); };
    const float2 v[4] = {pair(0), pair(1), pair(2), pair(3)};
    return {{v[0].x, v[0].y, v[1].x, v[1].y}, {v[2].x, v[2].y, v[3].x, v[3].y}};
  }
  __device__ __forceinline__ void store(int group, int eight, const Eight& v) const {
    const At to = at(group, eight);
    if (!to.there) return;
    const auto pair = [&](int i) -> float2& { return *reinterpret_cast<float2*>(args_.out + to.first + 8 * i); };
    pair(0) = {v.a.x, v.a.y};
    pair(1) = {v.a.z, v.a.w};
    pair(2) = {v.b.x, v.b.y};
    pair(3) = {v.b.z, v.b.w};
  }

  const ExchangeArgs& args_;
  const PieceMail mail_;
  const int width_, groups_, pieces_;
};

__global__ void __launch_bounds__(kThreads)
    send_terms(const __grid_constant__ ExchangeArgs args, const __grid_constant__ SumMail to, Stamp* stamps) {
  const DependentWork work(stamps);
  const TokenSums sums(args);
  const int64_t half = to.half();
  for (int piece = static_cast<int>(blockIdx.x); piece < sums.pieces(); piece += static_cast<int>(gridDim.x))
    sums.send_terms(to, half, piece);
}

// Few registers: other kernels run beside it, while the link is the bottleneck.
__global__ void __launch_bounds__(kThreads, 4) sum_by_tokens(const __grid_constant__ ExchangeArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const TokenSums sums(args);
  if (blockIdx.x == 0) sums.tell_sent();
  sums.wait_for_terms();
  const int pieces = sums.pieces_per_rank(), step = static_cast<int>(gridDim.x);
  for (int number = static_cast<int>(blockIdx.x); number < pieces; number += step) sums.add_up(number);
  for (int number = static_cast<int>(blockIdx.x); number < pieces; number += step) sums.take_sums(number);
}

} // namespace

SumMail sum_mail(const ExchangeArgs& args) {
  const int64_t place_bytes = args.most_pieces * kPieceFloats * 4;
  SumMail mail = {.ranks = args.ranks,
                  .half_bytes = args.ranks * place_bytes,
                  .group_bytes = args.width * static_cast<int64_t>(sizeof(uint4)),
                  .numbers = args.numbers,
                  .place = args.place};
  for (int to = 0; to < args.ranks; ++to)
    mail.to[to] = reinterpret_cast<uint8_t*>(args.mailboxes[to].pieces) + args.rank * place_bytes;
  return mail;
}

void launch_send_terms(const Launch& launch, const ExchangeArgs& args) {
  launch(send_terms, static_cast<unsigned>(4 * launch.sm_count), kThreads, 0, args, sum_mail(args), launch.stamps());
}

void launch_sum_by_tokens(const Launch& launch, const ExchangeArgs& args) {
  launch(sum_by_tokens, static_cast<unsigned>(4 * launch.sm_count), kThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
