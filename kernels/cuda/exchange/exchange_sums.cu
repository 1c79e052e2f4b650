// Sums large values. A block sends one piece ahead, to keep the link busy. Fast mode rounds all values, own ones, too,
// to half of their bytes: the link is the bottleneck, and bits stay equal on all ranks.
#include "kernels/cuda/exchange/packed.cuh"
#include "kernels/cuda/exchange/piece_mail.cuh"
#include "kernels/cuda/ops/elementwise.cuh"

namespace ridge::kernels::cuda {
namespace {

// Few registers: four blocks fit a multiprocessor, one beside a prompt product (gemm/prompt_product.cu). A grid of only
// that one was not faster on two H200.
constexpr int kSumThreads = 256, kSumBlocksPerSm = 4, kEights = kPieceFloats / kSumThreads / 8;

__device__ __forceinline__ Eight operator+(const Eight& x, const Eight& y) {
  return {{x.a.x + y.a.x, x.a.y + y.a.y, x.a.z + y.a.z, x.a.w + y.a.w},
          {x.b.x + y.b.x, x.b.y + y.b.y, x.b.z + y.b.z, x.b.w + y.b.w}};
}

// The summed part in eights: of each row or, if rows are whole, of all as one.
class SummedPart {
 public:
  __device__ __forceinline__ explicit SummedPart(const ExchangeArgs& args)
      : floats_(args.rows * args.part), first_(args.first), width_(args.width),
        per_row_(args.part == args.width ? 0 : static_cast<uint32_t>(args.part / 8)) {}

  __device__ __forceinline__ bool has(uint32_t number) const { return int64_t{number} * 8 < floats_; }
  __device__ __forceinline__ Eight load(const float* x, uint32_t number) const {
    const float* from = x + at(number);
    if (is_full(number)) return {reinterpret_cast<const float4*>(from)[0], reinterpret_cast<const float4*>(from)[1]};
    float v[8] = {};
    for (int i = 0; i < left(number); ++i) v[i] = from[i];
    return {{v[0], v[1], v[2], v[3]}, {v[4], v[5], v[6], v[7]}};
  }
  __device__ __forceinline__ void store(float* out, uint32_t number, const Eight& v) const {
    float* to = out + at(number);
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
  __device__ __forceinline__ int64_t at(uint32_t number) const {
    if (per_row_ == 0) return int64_t{number} * 8;
    const uint32_t row = number / per_row_;
    return row * width_ + first_ + int64_t{number - row * per_row_} * 8;
  }

  int64_t floats_, first_, width_;
  uint32_t per_row_; // 0: rows are whole
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

template <typename Eights>
__global__ void __launch_bounds__(kSumThreads, kSumBlocksPerSm)
    sum_pieces(const __grid_constant__ ExchangeArgs args, Stamp* stamps) {
  using Mail = typename Eights::Mail;
  const DependentWork work(stamps);
  const PieceMail mail(args);
  const SummedPart part(args);
  const auto mail_of = [&](int owner, int from) {
    return reinterpret_cast<Mail*>(mail.pieces(owner, from)) + args.first_piece * (kPieceFloats / 8);
  };
  const auto each_eight = [&](int64_t piece, auto&& run) {
    const auto first = static_cast<uint32_t>(piece * (kPieceFloats / 8) + threadIdx.x);
#pragma unroll
    for (int i = 0; i < kEights; ++i)
      if (const uint32_t number = first + i * kSumThreads; part.has(number)) run(number);
  };
  const auto send = [&](int64_t piece) {
    each_eight(piece, [&](uint32_t number) {
      const Eight own = part.load(args.x, number);
      mail.each_other([&](int to) { Eights::put(mail_of(to, args.rank) + number, own); });
    });
    mail.raise_flags(args.first_piece + piece);
  };
  const auto add_up = [&](int64_t piece) {
    mail.wait_for_flags(args.first_piece + piece);
    each_eight(piece, [&](uint32_t number) {
      Eight sum = {};
      for (int from = 0; from < args.ranks; ++from)
        sum = sum + (from == args.rank ? Eights::rounded(part.load(args.x, number))
                                       : Eights::get(mail_of(args.rank, from) + number));
      part.store(args.out, number, sum);
    });
  };
  const int64_t pieces = pieces_of_part(args.rows, args.part), step = gridDim.x;
  for (int64_t piece = blockIdx.x; piece < pieces + step; piece += step) {
    if (piece < pieces) send(piece);
    if (piece >= step) add_up(piece - step);
  }
}

} // namespace

void launch_exchange_part(const Launch& launch, const ExchangeArgs& args) {
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(pieces_of_part(args.rows, args.part), kSumBlocksPerSm * launch.sm_count));
  const auto kernel = args.packed ? sum_pieces<PackedEights> : sum_pieces<PlainEights>;
  launch(kernel, blocks, kSumThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
