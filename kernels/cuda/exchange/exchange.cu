// Joins, and sums of small values: packets carry the exchange's number, on which readers spin. Large values go in
// pieces (piece_mail.cuh, exchange_sums.cu, sum_by_tokens.cu). All add in rank order: equal bits.
#include "kernels/cuda/exchange/piece_mail.cuh"
#include "kernels/cuda/ops/elementwise.cuh"

namespace ridge::kernels::cuda {
namespace {

// Reads a packet, and tells whether it is of this exchange.
__device__ __forceinline__ bool receive(const Packet* from, uint32_t number, float& value) {
  Packet packet;
  asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(packet) : "l"(from) : "memory");
  value = __uint_as_float(static_cast<uint32_t>(packet));
  return static_cast<uint32_t>(packet >> 32) == number;
}

// Tells whether element i is this rank's, and its index in x.
struct Own {
  bool is;
  int64_t at;
  __device__ __forceinline__ Own(const ExchangeArgs& args, int64_t i) {
    const int64_t row = i / args.width, column = i - row * args.width - args.first;
    is = column >= 0 && column < args.part;
    at = row * args.part + column;
  }
};

__global__ void exchange_packets(const __grid_constant__ ExchangeArgs args,
                                 const __grid_constant__ PacketTargets targets, Stamp* stamps) {
  let_successor_start();
  stamp(stamps, kStarts);
  if (!args.dataflow_input) wait_for_predecessor();
  const uint32_t number = targets.number();
  const int64_t n = args.rows * args.width;
  // Joined parts do not overlap and share one place; sums need a place per sender.
  const auto place = [&](int rank) {
    return (number % 2 * args.ranks + (args.is_all_gather ? 0 : rank)) * kPacketFloats;
  };
  const auto load = [&](int64_t i) {
    float value = load_latest(args.x + i);
    while (args.dataflow_input && is_sentinel(value)) value = load_latest(args.x + i);
    return value;
  };
  for (int64_t i = first_index(); i < n && !args.sent; i += index_step())
    if (const Own own(args, i); own.is) targets.send(load(own.at), i, number);
  stamp(stamps, kPredecessorDone);
  const Packet* mine = args.mailboxes[args.rank].packets;
  const int other = args.ranks == 2 ? 1 - args.rank : kUnknownRank; // sender of a joined part
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Own own(args, i);
    float result = 0;
    if (!args.is_all_gather) {
      // Reads all ranks' packets at once: their latencies overlap.
      float terms[kMaxRanks];
      int late = kUnknownRank;
      wait_until(args, late, [&] {
        bool arrived = true;
#pragma unroll
        for (int from = 0; from < kMaxRanks; ++from) {
          if (from >= args.ranks || from == args.rank || receive(mine + place(from) + i, number, terms[from])) continue;
          arrived = false;
          late = from;
        }
        return arrived;
      });
#pragma unroll
      for (int from = 0; from < kMaxRanks; ++from)
        if (from < args.ranks) result += from == args.rank ? load(i) : terms[from];
    } else if (own.is) {
      result = args.x[own.at];
    } else {
      wait_until(args, other, [&] { return receive(mine + place(0) + i, number, result); });
    }
    if (args.dataflow_output)
      store_latest(args.out + i, result);
    else
      args.out[i] = result;
  }
  if (args.dataflow_input) wait_for_predecessor(); // successors rely on it (ptx.cuh)
  stamp_latest(stamps, kEnds);
}

__global__ void join_pieces(const __grid_constant__ ExchangeArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const PieceMail mail(args);
  const int64_t n = args.rows * args.width, each = (n + gridDim.x - 1) / gridDim.x;
  const int64_t begin = min(n, blockIdx.x * each), end = min(n, begin + each);
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    if (const Own own(args, i); own.is) mail.each_other([&](int to) { mail.pieces(to, 0)[i] = args.x[own.at]; });
  mail.raise_flags(blockIdx.x);
  mail.wait_for_flags(blockIdx.x);
  const float* others = mail.pieces(args.rank, 0);
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const Own own(args, i);
    args.out[i] = own.is ? args.x[own.at] : fresh(others + i);
  }
}

__global__ void number_exchanges(ExchangeNumbers* numbers, uint32_t count, Stamp* stamps) {
  const DependentWork work(stamps);
  numbers->first = numbers->next;
  numbers->next = numbers->first + count;
}

} // namespace

PacketTargets packet_targets(const ExchangeArgs& args) {
  PacketTargets targets = {.half = args.ranks * kPacketFloats, .numbers = args.numbers, .place = args.place};
  const int64_t own = args.is_all_gather ? 0 : args.rank * kPacketFloats;
  each_other(args, [&](int to) { targets.to[targets.count++] = args.mailboxes[to].packets + own; });
  return targets;
}

void launch_exchange(const Launch& launch, const ExchangeArgs& args) {
  const int64_t n = args.rows * args.width;
  if (n <= (args.is_all_gather ? kPacketFloats : kPacketSumFloats)) {
    const auto blocks = static_cast<unsigned>(std::clamp<int64_t>((n + kElementThreads - 1) / kElementThreads, 1, 64));
    return launch(exchange_packets, blocks, kElementThreads, 0, args, packet_targets(args), launch.stamps());
  }
  if (!args.is_all_gather && args.packed && summed_by_tokens(args.rows, args.width)) {
    launch_send_terms(launch, args);
    return launch_sum_by_tokens(launch, args);
  }
  if (!args.is_all_gather) return launch_sum_of_pieces(launch, args);
  constexpr int kThreads = 512;
  launch(join_pieces, static_cast<unsigned>(std::min(kJoinedPieces, 2 * launch.sm_count)), kThreads, 0, args,
         launch.stamps());
}

void launch_number_exchanges(const Launch& launch, ExchangeNumbers* numbers, uint32_t count) {
  launch(number_exchanges, 1, 1, 0, numbers, count, launch.stamps());
}

} // namespace ridge::kernels::cuda
