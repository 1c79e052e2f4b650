// Unpacks what a prompt's stream has in a layer's cache of codes to f16, for the kernels that read f16 only.
#include "kernels/cuda/attention/cached_rows.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Grid: pieces of eight elements of a head; heads; keys and values.
__global__ void __launch_bounds__(kThreads)
    unpack_cache_kernel(const __grid_constant__ AttentionArgs args, __half* to) {
  const DependentWork work(args.stamps);
  const Cache& cache = args.cache;
  const CachedSide from = blockIdx.z ? cached_values(cache) : cached_keys(cache);
  const int64_t pieces = cache.rows * (cache.k_dim / 8), piece = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t seen = cache.ring || args.places ? cache.rows : args.positions[args.tokens - 1] + 1;
  if (piece >= seen * (cache.k_dim / 8)) return; // four lanes of a block come together
  const int64_t head = blockIdx.y, at = (int64_t{args.streams[0]} * cache.heads + head) * pieces + piece;
  const uint2 codes = from.type == core::KvType::q8_0 ? static_cast<const uint2*>(from.data)[at]
                                                      : uint2{static_cast<const uint32_t*>(from.data)[at],
                                                              from.blocks.high_bits ? from.blocks.high_bits[at] : 0u};
  const uint16_t minimum = from.blocks.minima ? from.blocks.minima[at / 4] : uint16_t{0};
  uint4 halves = CodeReader(from.type)(codes, from.blocks.scales[at / 4], minimum);
  if (core::is_rotated(from.type)) {
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = __half2float(reinterpret_cast<const __half*>(&halves)[i]);
    rotate_lanes(x);
    halves = {pack_half2(x[0], x[1]), pack_half2(x[2], x[3]), pack_half2(x[4], x[5]), pack_half2(x[6], x[7])};
  }
  reinterpret_cast<uint4*>(to)[(blockIdx.z * cache.heads + head) * pieces + piece] = halves;
}

} // namespace

Cache launch_unpack_cache(const Launch& launch, const AttentionArgs& args, void* to) {
  Cache cache = args.cache;
  const int64_t side = cache.heads * cache.rows * cache.k_dim;
  const auto blocks = static_cast<unsigned>((cache.rows * (cache.k_dim / 8) + kThreads - 1) / kThreads);
  launch(unpack_cache_kernel, dim3(blocks, cache.heads, 2), kThreads, 0, args, static_cast<__half*>(to));
  cache.k = to, cache.v = static_cast<__half*>(to) + side;
  cache.k_half = cache.v_half = true;
  cache.k_type = cache.v_type = core::KvType::f16;
  cache.k_blocks = cache.v_blocks = {};
  cache.streams = 1;
  return cache;
}

} // namespace ridge::kernels::cuda
