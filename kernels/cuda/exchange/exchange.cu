// Sums and joins over ranks. A small value goes as packets, each written to every other rank at once with the number of
// the exchange, and read by spinning on that number: one way over the link. Of a large value a block writes a piece,
// then a flag behind it, which is read before the pieces of the others are.
//
// All ranks add up in the order of ranks, so that they get the same bits.
#include "kernels/cuda/exchange/exchange_memory.h"
#include "kernels/cuda/ops/elementwise.cuh"

namespace ridge::kernels::cuda {
namespace {

// Spins until `arrived` says so, or a rank has failed.
template <typename Arrived>
__device__ __forceinline__ void wait_until(const int* failed, Arrived&& arrived) {
  constexpr int kSpins = 4096; // between looks into the host's memory
  for (int spins = 1; !arrived(); ++spins)
    if (spins % kSpins == 0 && *static_cast<const volatile int*>(failed) != 0) return;
}

__device__ __forceinline__ void send(Packet* to, float value, uint32_t number) {
  const Packet packet = uint64_t{number} << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(to), "l"(packet) : "memory");
}

__device__ __forceinline__ float receive(const Packet* from, uint32_t number, const int* failed) {
  Packet packet = 0;
  wait_until(failed, [&] {
    asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(packet) : "l"(from) : "memory");
    return static_cast<uint32_t>(packet >> 32) == number;
  });
  return __uint_as_float(static_cast<uint32_t>(packet));
}

__device__ __forceinline__ void raise(uint32_t* flag, uint32_t number) {
  asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(flag), "r"(number) : "memory");
}

__device__ __forceinline__ bool is_raised(const uint32_t* flag, uint32_t number) {
  uint32_t found;
  asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
  return found == number;
}

// What another GPU wrote, which may not be taken from L1.
template <typename T>
__device__ __forceinline__ T fresh(const T* from) {
  return __ldcv(from);
}

// Of the whole value, element i: whether it is of this rank's part, and where in x.
struct Own {
  bool is;
  int64_t at;
  __device__ __forceinline__ Own(const ExchangeArgs& args, int64_t i) {
    const int64_t row = i / args.width, column = i - row * args.width - args.first;
    is = column >= 0 && column < args.part;
    at = row * args.part + column;
  }
};

__global__ void exchange_packets(const __grid_constant__ ExchangeArgs args, Stamp* stamps) {
  let_successor_start();
  stamp(stamps, kStarts);
  if (!args.dataflow_input) wait_for_predecessor();
  const uint32_t number = args.numbers->first + args.place;
  const int64_t n = args.rows * args.width;
  // Of sums a place for each sender; parts of a joined value do not overlap.
  const auto place = [&](int rank) { return (number % 2 * args.ranks + (args.gathers ? 0 : rank)) * kPacketFloats; };
  const auto load = [&](int64_t i) {
    float value = load_latest(args.x + i);
    while (args.dataflow_input && is_sentinel(value)) value = load_latest(args.x + i);
    return value;
  };
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Own own(args, i);
    if (!own.is) continue;
    const float value = load(own.at);
    for (int to = 0; to < args.ranks; ++to)
      if (to != args.rank) send(args.mailboxes[to].packets + place(args.rank) + i, value, number);
  }
  stamp(stamps, kMayGoOn);
  const Packet* mine = args.mailboxes[args.rank].packets;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Own own(args, i);
    float result = 0;
    if (args.gathers)
      result = own.is ? args.x[own.at] : receive(mine + place(0) + i, number, args.failed);
    else
      for (int from = 0; from < args.ranks; ++from)
        result += from == args.rank ? load(i) : receive(mine + place(from) + i, number, args.failed);
    if (args.dataflow_output)
      store_latest(args.out + i, result);
    else
      args.out[i] = result;
  }
  if (args.dataflow_input) wait_for_predecessor(); // so that who waits for this kernel has waited for all before it
  stamp_latest(stamps, kEnds);
}

__global__ void exchange_pieces(const __grid_constant__ ExchangeArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const uint32_t number = args.numbers->first + args.place;
  const int64_t n = args.rows * args.width, each = ((n + gridDim.x - 1) / gridDim.x + 3) / 4 * 4;
  const int64_t begin = min(n, blockIdx.x * each), end = min(n, begin + each),
                quads = args.gathers ? begin : begin + (end - begin) / 4 * 4;
  const auto place = [&](int rank) { return (number % 2 * args.ranks + (args.gathers ? 0 : rank)) * args.most_floats; };
  const auto flag = [&](int from) { return (number % 2 * args.ranks + from) * kPieces + blockIdx.x; };
  const auto each_other = [&](auto&& run) {
    for (int to = 0; to < args.ranks; ++to)
      if (to != args.rank) run(to);
  };

  for (int64_t i = begin + 4 * threadIdx.x; i < quads; i += 4 * blockDim.x) {
    const float4 values = *reinterpret_cast<const float4*>(args.x + i);
    each_other([&](int to) { *reinterpret_cast<float4*>(args.mailboxes[to].pieces + place(args.rank) + i) = values; });
  }
  for (int64_t i = quads + threadIdx.x; i < end; i += blockDim.x)
    if (const Own own(args, i); own.is)
      each_other([&](int to) { args.mailboxes[to].pieces[place(args.rank) + i] = args.x[own.at]; });
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x < args.ranks && threadIdx.x != args.rank) {
    raise(args.mailboxes[threadIdx.x].flags + flag(args.rank), number);
    wait_until(args.failed, [&] { return is_raised(args.mailboxes[args.rank].flags + flag(threadIdx.x), number); });
  }
  __syncthreads();

  const float* mine = args.mailboxes[args.rank].pieces;
  for (int64_t i = begin + 4 * threadIdx.x; i < quads; i += 4 * blockDim.x) {
    float4 sum = {};
    for (int from = 0; from < args.ranks; ++from) {
      const float4 term = from == args.rank ? *reinterpret_cast<const float4*>(args.x + i)
                                            : fresh(reinterpret_cast<const float4*>(mine + place(from) + i));
      sum = {sum.x + term.x, sum.y + term.y, sum.z + term.z, sum.w + term.w};
    }
    *reinterpret_cast<float4*>(args.out + i) = sum;
  }
  for (int64_t i = quads + threadIdx.x; i < end; i += blockDim.x) {
    const Own own(args, i);
    if (args.gathers) {
      args.out[i] = own.is ? args.x[own.at] : fresh(mine + place(0) + i);
      continue;
    }
    float sum = 0;
    for (int from = 0; from < args.ranks; ++from) sum += from == args.rank ? args.x[i] : fresh(mine + place(from) + i);
    args.out[i] = sum;
  }
}

__global__ void number_exchanges(ExchangeNumbers* numbers, uint32_t count, Stamp* stamps) {
  const DependentWork work(stamps);
  numbers->first = numbers->next;
  numbers->next = numbers->first + count;
}

} // namespace

void launch_exchange(const Launch& launch, const ExchangeArgs& args) {
  const int64_t n = args.rows * args.width;
  if (n <= kPacketFloats) {
    const auto blocks = static_cast<unsigned>(std::clamp<int64_t>((n + kElementThreads - 1) / kElementThreads, 1, 64));
    return launch(exchange_packets, blocks, kElementThreads, 0, args, launch.stamps());
  }
  constexpr int kThreads = 512;
  launch(exchange_pieces, static_cast<unsigned>(std::min(kPieces, 2 * launch.sm_count)), kThreads, 0, args,
         launch.stamps());
}

void launch_number_exchanges(const Launch& launch, ExchangeNumbers* numbers, uint32_t count) {
  launch(number_exchanges, 1, 1, 0, numbers, count, launch.stamps());
}

} // namespace ridge::kernels::cuda
