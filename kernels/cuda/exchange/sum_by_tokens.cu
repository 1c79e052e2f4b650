// Sums of long prompts' values, in two steps: terms go to the rank that adds up their tokens (sum_mail.h), from a
// product or from here, and sums to all. All ranks take rounded terms and sums, own ones, too: equal bits.
#include "kernels/cuda/exchange/packed.cuh"
#include "kernels/cuda/exchange/piece_mail.cuh"
#include "kernels/cuda/exchange/sum_mail.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256, kEightsPerThread = 2, kPieceEights = kThreads * kEightsPerThread, kBlocksPerSm = 4;
constexpr int kTileGroups = kPromptTokens / kGroupTokens;

// A block's view of one exchange. A group is cut into pieces of kPieceEights. Flags: one per tile of tokens whose terms
// are sent, then one per piece of sums.
template <int kMost> // ranks
class TokenSums {
 public:
  __device__ __forceinline__ TokenSums(const ExchangeArgs& args, const TokenTiles& tiles)
      : args_(args), mail_(args), tiles_(tiles), width_(static_cast<int>(args.width)),
        pieces_((width_ + kPieceEights - 1) / kPieceEights), first_group_(tiles.first * kTileGroups),
        end_group_(min(static_cast<int>(token_groups(args.rows)), first_group_ + tiles.count * kTileGroups)) {}

  // Each rank adds up at most one group in a turn.
  __device__ __forceinline__ int first_turn_piece() const { return first_group_ / args_.ranks * pieces_; }
  __device__ __forceinline__ int end_turn_piece() const {
    return (end_group_ + args_.ranks - 1) / args_.ranks * pieces_;
  }
  __device__ __forceinline__ int pieces() const { return (end_group_ - first_group_) * pieces_; }

  __device__ __forceinline__ void send_terms(const SumMail& to, int64_t half, int piece) const {
    const int group = first_group_ + piece / pieces_;
    each_eight(piece % pieces_, [&](int at, int) { to.group(half, group)[at] = pack(load(group, at)); });
  }
  __device__ __forceinline__ void tell_sent() const { mail_.raise_flags(tiles_.first, tiles_.count); }
  __device__ __forceinline__ void wait_for_terms() const { mail_.wait_for_flags(tiles_.first, tiles_.count); }

  __device__ __forceinline__ void add_up(int turn_piece) const {
    const int turn = turn_piece / pieces_, group = turn * args_.ranks + args_.rank;
    if (!has(group)) return;
    const int piece = turn_piece - turn * pieces_;
    uint4 terms[kEightsPerThread][kMost]; // read at once: their latencies overlap
    each_eight(piece, [&](int at, int i) {
#pragma unroll
      for (int from = 0; from < kMost; ++from)
        if (from < args_.ranks) terms[i][from] = fresh(place(args_.rank, from, group) + at);
    });
    each_eight(piece, [&](int at, int i) {
      Eight all = {};
#pragma unroll
      for (int from = 0; from < kMost; ++from)
        if (from < args_.ranks) all = all + unpack(terms[i][from]);
      const uint4 sum = pack(all);
      mail_.each_other([&](int to) { place(to, args_.rank, group)[at] = sum; });
      store(group, at, unpack(sum));
    });
    mail_.raise_flags(sum_flag(turn_piece));
  }
  // The same of the other ranks.
  __device__ __forceinline__ void take_sums(int turn_piece) const {
    const int turn = turn_piece / pieces_, first = turn * args_.ranks;
    mail_.wait_for_flags(sum_flag(turn_piece), [&](int from) { return has(first + from); });
    mail_.each_other([&](int from) {
      const int group = first + from;
      if (!has(group)) return;
      each_eight(turn_piece - turn * pieces_,
                 [&](int at, int) { store(group, at, unpack(fresh(place(args_.rank, from, group) + at))); });
    });
  }

 private:
  __device__ __forceinline__ bool has(int group) const { return group >= first_group_ && group < end_group_; }
  __device__ __forceinline__ int64_t sum_flag(int turn_piece) const {
    return all_token_tiles(args_.rows).count + turn_piece;
  }
  __device__ __forceinline__ uint4* place(int owner, int from, int group) const {
    return reinterpret_cast<uint4*>(mail_.pieces(owner, from)) + int64_t{group} * width_;
  }
  template <typename Run>
  __device__ __forceinline__ void each_eight(int piece, Run&& run) const {
    const int first = piece * kPieceEights + static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kEightsPerThread; ++i)
      if (const int at = first + i * kThreads; at < width_) run(at, i);
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
  const TokenTiles tiles_;
  const int width_, pieces_, first_group_, end_group_;
};

__global__ void __launch_bounds__(kThreads)
    send_terms(const __grid_constant__ ExchangeArgs args, const __grid_constant__ SumMail to, Stamp* stamps) {
  const DependentWork work(stamps);
  const TokenSums<kMaxRanks> sums(args, all_token_tiles(args.rows));
  const int64_t half = to.half();
  for (int piece = static_cast<int>(blockIdx.x); piece < sums.pieces(); piece += static_cast<int>(gridDim.x))
    sums.send_terms(to, half, piece);
}

// Few registers: other kernels run beside it, while the link is the bottleneck. Blocks start in order, so those that
// run find the other ranks' same pieces, however few fit.
template <int kMost>
__global__ void __launch_bounds__(kThreads, kMost > 4 ? 2 : kBlocksPerSm)
    sum_by_tokens(const __grid_constant__ ExchangeArgs args, const __grid_constant__ TokenTiles tiles, Stamp* stamps) {
  const DependentWork work(stamps);
  const TokenSums<kMost> sums(args, tiles);
  if (blockIdx.x == 0) sums.tell_sent();
  sums.wait_for_terms();
  const int begin = sums.first_turn_piece() + static_cast<int>(blockIdx.x), end = sums.end_turn_piece(),
            step = static_cast<int>(gridDim.x);
  for (int piece = begin; piece < end; piece += step) sums.add_up(piece);
  for (int piece = begin; piece < end; piece += step) sums.take_sums(piece);
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
  launch(send_terms, static_cast<unsigned>(kBlocksPerSm * launch.sm_count), kThreads, 0, args, sum_mail(args),
         launch.stamps());
}

void launch_sum_by_tokens(const Launch& launch, const ExchangeArgs& args, const TokenTiles& tiles) {
  // All blocks of both parts fit at once: they may wait for one another's on other ranks.
  const bool all = tiles.count == all_token_tiles(args.rows).count;
  const auto kernel = args.ranks > 4 ? sum_by_tokens<kMaxRanks> : sum_by_tokens<4>;
  const int blocks = (args.ranks > 4 ? 2 : kBlocksPerSm) * launch.sm_count / (all ? 1 : 2);
  launch(kernel, static_cast<unsigned>(blocks), kThreads, 0, args, tiles, launch.stamps());
}

} // namespace ridge::kernels::cuda
