// Sums large values in one step on two ranks, in two on more. A block sends one piece ahead, to keep the link busy.
// Fast mode rounds all values, own ones, too, to half of their bytes: the link is the bottleneck, and bits stay equal
// on all ranks.
#include "kernels/cuda/exchange/packed.cuh"
#include "kernels/cuda/exchange/piece_mail.cuh"
#include "kernels/cuda/ops/elementwise.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kSumThreads = 256, kSumBlocksPerSm = 4, kEights = kPieceFloats / kSumThreads / 8;
constexpr int64_t kOneStepFloats = 1 << 20; // of all ranks; four H200: equal at 262,144 floats each

__host__ __device__ constexpr int64_t pieces_of(int64_t floats) { return (floats + kPieceFloats - 1) / kPieceFloats; }

// The value in eights.
class SummedValue {
 public:
  __device__ __forceinline__ explicit SummedValue(const ExchangeArgs& args) : floats_(args.rows * args.width) {}

  __device__ __forceinline__ bool has(uint32_t number) const { return int64_t{number} * 8 < floats_; }
  __device__ __forceinline__ Eight load(const float* x, uint32_t number) const {
    const float* from = x + int64_t{number} * 8;
    if (is_full(number)) return {reinterpret_cast<const float4*>(from)[0], reinterpret_cast<const float4*>(from)[1]};
    float v[8] = {};
    for (int i = 0; i < left(number); ++i) v[i] = from[i];
    return {{v[0], v[1], v[2], v[3]}, {v[4], v[5], v[6], v[7]}};
  }
  __device__ __forceinline__ void store(float* out, uint32_t number, const Eight& v) const {
    float* to = out + int64_t{number} * 8;
    if (is_full(number)) {
      reinterpret_cast<float4*>(to)[0] = v.a;
      reinterpret_cast<float4*>(to)[1] = v.b;
      return;
    }
    const float values[8] = {v.a.x, v.a.y, v.a.z, v.a.w, v.b.x, v.b.y, v.b.z, v.b.w};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < left(number)) to[i] = values[i];
  }

 private:
  __device__ __forceinline__ int left(uint32_t number) const { return static_cast<int>(floats_ - int64_t{number} * 8); }
  __device__ __forceinline__ bool is_full(uint32_t number) const { return int64_t{number} * 8 + 8 <= floats_; }

  int64_t floats_;
};

struct PackedEights {
  using Mail = uint4;
  static __device__ __forceinline__ Eight rounded(const Eight& v) { return unpack(pack(v)); }
  static __device__ __forceinline__ void put(Mail* to, const Eight& v) { *to = pack(v); }
  static __device__ __forceinline__ Eight get(const Mail* from) { return unpack(fresh(from)); }
};
struct PlainEights {
  using Mail = Eight;
  static __device__ __forceinline__ Eight rounded(const Eight& v) { return v; }
  static __device__ __forceinline__ void put(Mail* to, const Eight& v) { *to = v; }
  static __device__ __forceinline__ Eight get(const Mail* from) { return {fresh(&from->a), fresh(&from->b)}; }
};

// A block's view of one value's pieces. Mail from `from` lies in the memory of `owner`.
template <typename Eights>
class PieceSums {
 public:
  __device__ __forceinline__ explicit PieceSums(const ExchangeArgs& args) : args_(args), mail_(args), value_(args) {}

  __device__ __forceinline__ int64_t pieces() const { return pieces_of(args_.rows * args_.width); }
  // The rank that adds up a piece if sums take two steps.
  __device__ __forceinline__ int owner(int64_t piece) const { return static_cast<int>(piece % args_.ranks); }
  __device__ __forceinline__ bool is_mine(int64_t piece) const { return owner(piece) == args_.rank; }

  __device__ __forceinline__ void send_to_all(int64_t piece) const {
    each_eight(piece, [&](uint32_t number) {
      const Eight own = value_.load(args_.x, number);
      mail_.each_other([&](int to) { Eights::put(mail_of(to, args_.rank) + number, own); });
    });
    mail_.raise_flags(piece);
  }
  __device__ __forceinline__ void send_to_owner(int64_t piece) const {
    const int to = owner(piece);
    each_eight(piece,
               [&](uint32_t number) { Eights::put(mail_of(to, args_.rank) + number, value_.load(args_.x, number)); });
    mail_.raise_flag(to, piece);
  }
  __device__ __forceinline__ void add_up(int64_t piece) const {
    mail_.wait_for_flags(piece);
    each_eight(piece, [&](uint32_t number) { value_.store(args_.out, number, sum_of(number)); });
  }
  // Rounded like the others' copies: equal bits on all ranks.
  __device__ __forceinline__ void add_up_for_all(int64_t piece) const {
    mail_.wait_for_flags(piece);
    each_eight(piece, [&](uint32_t number) {
      const Eight sum = sum_of(number);
      mail_.each_other([&](int to) { Eights::put(mail_of(to, args_.rank) + number, sum); });
      value_.store(args_.out, number, Eights::rounded(sum));
    });
    mail_.raise_flags(piece);
  }
  __device__ __forceinline__ void take_sum(int64_t piece) const {
    const int from = owner(piece);
    mail_.wait_for_flag(from, piece);
    each_eight(piece, [&](uint32_t number) {
      value_.store(args_.out, number, Eights::get(mail_of(args_.rank, from) + number));
    });
  }

 private:
  using Mail = typename Eights::Mail;

  __device__ __forceinline__ Mail* mail_of(int owner, int from) const {
    return reinterpret_cast<Mail*>(mail_.pieces(owner, from));
  }
  template <typename Run>
  __device__ __forceinline__ void each_eight(int64_t piece, Run&& run) const {
    const auto first = static_cast<uint32_t>(piece * (kPieceFloats / 8) + threadIdx.x);
#pragma unroll
    for (int i = 0; i < kEights; ++i)
      if (const uint32_t number = first + i * kSumThreads; value_.has(number)) run(number);
  }
  __device__ __forceinline__ Eight sum_of(uint32_t number) const {
    Eight sum = {};
    for (int from = 0; from < args_.ranks; ++from)
      sum = sum + (from == args_.rank ? Eights::rounded(value_.load(args_.x, number))
                                      : Eights::get(mail_of(args_.rank, from) + number));
    return sum;
  }

  const ExchangeArgs& args_;
  const PieceMail mail_;
  const SummedValue value_;
};

// One step: each rank sends all pieces to all others. For two ranks, and for small values, where latency counts.
template <typename Eights>
__global__ void __launch_bounds__(kSumThreads, kSumBlocksPerSm)
    sum_pieces(const __grid_constant__ ExchangeArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const PieceSums<Eights> sums(args);
  const int64_t pieces = sums.pieces(), step = gridDim.x;
  for (int64_t piece = blockIdx.x; piece < pieces + step; piece += step) {
    if (piece < pieces) sums.send_to_all(piece);
    if (piece >= step) sums.add_up(piece - step);
  }
}

// Two steps: a rank adds up its share of the pieces and sends the sums. With R ranks each sends 2 (R - 1) / R values
// per value instead of R - 1.
template <typename Eights>
__global__ void __launch_bounds__(kSumThreads, kSumBlocksPerSm)
    sum_pieces_by_owner(const __grid_constant__ ExchangeArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const PieceSums<Eights> sums(args);
  const int64_t pieces = sums.pieces(), step = gridDim.x;
  for (int64_t piece = blockIdx.x; piece < pieces + 2 * step; piece += step) {
    if (piece < pieces && !sums.is_mine(piece)) sums.send_to_owner(piece);
    if (const int64_t sent = piece - step; sent >= 0 && sent < pieces && sums.is_mine(sent)) sums.add_up_for_all(sent);
    if (const int64_t added = piece - 2 * step; added >= 0 && !sums.is_mine(added)) sums.take_sum(added);
  }
}

template <typename Eights>
auto sum_kernel(int ranks, int64_t floats) {
  return ranks == 2 || ranks * floats <= kOneStepFloats ? sum_pieces<Eights> : sum_pieces_by_owner<Eights>;
}

} // namespace

void launch_sum_of_pieces(const Launch& launch, const ExchangeArgs& args) {
  const int64_t floats = args.rows * args.width;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(pieces_of(floats), kSumBlocksPerSm * launch.sm_count));
  const auto kernel =
      args.packed ? sum_kernel<PackedEights>(args.ranks, floats) : sum_kernel<PlainEights>(args.ranks, floats);
  launch(kernel, blocks, kSumThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
