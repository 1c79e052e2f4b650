// y = W x for one to four rows of activations: decoding.
//
// A block's chunks (a row block's warp tiles of the same columns) are split evenly among its warps, ordered by tile,
// then row block. A warp thus meets the same columns repeatedly and keeps their activations in registers, one group per
// lane. Sums over each warp tile go to shared memory and are added at the end.
//
// A kernel runs for 5 to 20 µs and fetches its prologue and epilogue for one use, and a layer's kernels should fit the
// instruction cache: loops are unrolled only if necessary.
#pragma once

#include "kernels/cuda/matvec/activation_stage.cuh"
#include "kernels/cuda/matvec/adapter_rows.cuh"
#include "kernels/cuda/matvec/expert_choice.cuh"
#include "kernels/cuda/matvec/matvec_epilogue.cuh"
#include "kernels/cuda/matvec/router_scores.cuh"
#include "kernels/cuda/matvec/weight_ring.cuh"

namespace ridge::kernels::cuda {

// MatvecWork::shared_bytes in products/cuts.cpp.
template <typename Format, typename Shape>
struct MatvecShared {
  uint8_t *lut, *ring;
  const uint8_t** chunks; // address of each row block's first chunk
  uint8_t* activations;
  int token_bytes;
  float* squares;
  float* sums;

  __device__ __forceinline__ MatvecShared(const Shape& shape, int row_blocks) {
    constexpr int kLut = kLutBytes<Format, Shape::kExact>, kRingBytes = Chunks<Format>::kSlots * Chunks<Format>::kBytes;
    extern __shared__ uint4 shared[];
    lut = reinterpret_cast<uint8_t*>(shared);
    ring = lut + kLut + shape.warp * kRingBytes;
    uint8_t* behind_rings = lut + kLut + shape.warps * kRingBytes;
    chunks = reinterpret_cast<const uint8_t**>(behind_rings);
    activations = behind_rings + (row_blocks + 1) / 2 * 16;
    token_bytes = (shape.groups * kGroupBytes<Format, Shape::kExact> + 15) / 16 * 16;
    squares = reinterpret_cast<float*>(activations + Shape::kTokens * token_bytes);
    sums = squares + Shape::kTokens * shape.warps;
  }
};

// Lane l gets the sum of v[l % kCount] over its aligned eight lanes.
template <int kCount>
__device__ __forceinline__ float sum_of_eight(float (&v)[kCount]) {
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
    const bool upper = threadIdx.x & half;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float mine = upper ? v[i + half] : v[i], others = upper ? v[i] : v[i + half];
      v[i] = mine + __shfl_xor_sync(~0u, others, half);
    }
  }
#pragma unroll
  for (int offset = kCount; offset < 8; offset *= 2) v[0] += __shfl_xor_sync(~0u, v[0], offset);
  return v[0];
}

template <typename Format, typename Shape>
class ChunkProducts {
  using L = Layout<Format>;
  using C = Chunks<Format>;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr bool kFloat = Shape::kFloat, kBits = Shape::kBits, kWhole = Shape::kWhole;
  static constexpr bool kHeld = kTokens * (kFloat ? L::kGroupWeights : 20) <= 40; // activations stay in registers
  static constexpr int kSumLanes = kBits ? 4 : 1;
  using Lut = LutOf<Format, Shape::kExact>;
  using Memory = MatvecShared<Format, Shape>;
  using Activations =
      std::conditional_t<kBits, BitTile,
                         std::conditional_t<kFloat, FloatGroup<L::kGroupWeights>, IntegerGroup<L, kLowParts<Format>>>>;

 public:
  __device__ __forceinline__ ChunkProducts(const Shape& shape, const Memory& memory, const Lut& lut)
      : shape_(shape), memory_(memory), lut_(lut) {}

  template <typename Ring, typename Beside>
  __device__ __forceinline__ void multiply(Ring& ring, int row_blocks, Beside& beside) const {
    float* chunk_sums = memory_.sums + ring.first_chunk * C::kRows + shape_.lane / kSumLanes;
    for (; ring.left > 0; ring.row_block = 0, ++ring.tile) {
      const int tile_groups = shape_.tile_groups(ring.tile), row_bytes = shape_.tile_bytes(ring.tile);
      const bool paired = !kWhole && !kFloat && !kBits && C::kRows >= 4 && tile_groups <= kWarp / 2;
      const int group_lane = paired ? shape_.lane % (kWarp / 2) : shape_.lane;
      const bool active = kWhole || group_lane < tile_groups;
      const int my_group = active ? group_lane : 0, first_group = ring.tile * kTileGroups,
                group = first_group + my_group;
      const auto activations_of = [&](int t) {
        const uint8_t* of_token = memory_.activations + t * memory_.token_bytes;
        if constexpr (kBits)
          return BitTile(of_token, shape_.groups, first_group, tile_groups);
        else
          return Activations(of_token, shape_.groups, group);
      };
      Activations held[kHeld ? kTokens : 1];
      if constexpr (kHeld)
#pragma unroll
        for (int t = 0; t < kTokens; ++t) held[t] = activations_of(t);
      const auto with = [&](int t, const auto& use) {
        if constexpr (kHeld)
          use(held[t]);
        else
          use(activations_of(t));
      };
      for (; ring.left > 0 && ring.row_block < row_blocks; --ring.left, ++ring.row_block) {
        beside.approach_end(ring.left);
        const uint8_t* const chunk = ring.next_chunk();
        float total[kTokens];
        if constexpr (kBits)
          multiply_bits(total, chunk, row_bytes, with);
        else
          multiply_groups(total, chunk, row_bytes, tile_groups, my_group, active, paired, with);
        if (shape_.lane % kSumLanes == 0 && shape_.lane < kSumLanes * C::kRows)
#pragma unroll
          for (int t = 0; t < kTokens; ++t) chunk_sums[t * shape_.tiles * row_blocks * C::kRows] = total[t];
        chunk_sums += C::kRows;
        ring.advance();
      }
    }
  }

 private:
  // On tensor cores. with(t, use) calls `use` with token t's activations.
  template <typename With>
  __device__ __forceinline__ void multiply_bits(float (&total)[kTokens], const uint8_t* chunk, int row_bytes,
                                                const With& with) const {
    static_assert(C::kRows == kWarp / kSumLanes);
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      with(t, [&](const Activations& x) { total[t] = x.template dot<kWhole>(chunk, row_bytes); });
#pragma unroll
    for (float& v : total)
#pragma unroll
      for (int lanes = 1; lanes < kSumLanes; lanes *= 2) v += __shfl_xor_sync(~0u, v, lanes);
  }

  // By dot products of the lanes' groups. `paired`: lanes without a group take the same groups of other rows.
  template <typename With>
  __device__ __forceinline__ void multiply_groups(float (&total)[kTokens], const uint8_t* chunk, int row_bytes,
                                                  int tile_groups, int my_group, bool active, bool paired,
                                                  const With& with) const {
    const int lane = shape_.lane;
    float sum[kTokens][C::kRows], block_scale = 1; // lane l: of row l % kRows and the groups of its eight lanes
    if constexpr (!kFloat && L::kBlockScale) {
      const int scaled_lane = paired ? lane % (kWarp / 2) : lane;
      if (kWhole || scaled_lane < tile_groups)
        block_scale = L::block_scale(chunk + lane % C::kRows * row_bytes, tile_groups, scaled_lane / 8);
    }
    const auto multiply_two = [&](const uint8_t* first_tile, const uint8_t* second_tile, float(&dots)[kTokens][2]) {
      const auto multiply = [&](const auto& first, const auto& second, const auto& dot) {
#pragma unroll
        for (int t = 0; t < kTokens; ++t)
          with(t, [&](const Activations& x) {
            dots[t][0] = active ? dot(first, x) : 0;
            dots[t][1] = active ? dot(second, x) : 0;
          });
      };
      if constexpr (kFloat) {
        Numbers<L::kGroupWeights> first, second;
        load_numbers<Format>(first, first_tile, tile_groups, my_group, lut_);
        load_numbers<Format>(second, second_tile, tile_groups, my_group, lut_);
        multiply(first, second, [](const auto& w, const Activations& x) { return x.dot(w); });
      } else {
        GroupCodes first, second;
        load_group<L>(first, first_tile, tile_groups, my_group, lut_);
        load_group<L>(second, second_tile, tile_groups, my_group, lut_);
        multiply(first, second, [](const GroupCodes& w, const Activations& x) { return group_dot<L>(w, x); });
      }
    };
    if (paired) {
      const bool upper = lane >= kWarp / 2;
#pragma unroll
      for (int j = 0; j < C::kRows; j += 4) {
        float dots[kTokens][2];
        const uint8_t* const first_tile = chunk + (j + 2 * upper) * row_bytes;
        multiply_two(first_tile, first_tile + row_bytes, dots);
#pragma unroll
        for (int t = 0; t < kTokens; ++t)
#pragma unroll
          for (int k = 0; k < 4; ++k)
            if (j + k < C::kRows) sum[t][j + k] = (k >= 2) == upper ? dots[t][k % 2] : 0;
      }
    } else {
#pragma unroll
      for (int j = 0; j < C::kRows; j += 2) {
        float dots[kTokens][2];
        const uint8_t* const first_tile = chunk + j * row_bytes;
        multiply_two(first_tile, first_tile + row_bytes, dots);
#pragma unroll
        for (int t = 0; t < kTokens; ++t) sum[t][j] = dots[t][0], sum[t][j + 1] = dots[t][1];
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      total[t] = sum_of_eight(sum[t]) * block_scale;
#pragma unroll
      for (int lanes = 8; lanes < kWarp; lanes *= 2) total[t] += __shfl_xor_sync(~0u, total[t], lanes);
    }
  }

  const Shape shape_; // by value: a reference costs instructions in the loop
  const Memory& memory_;
  const Lut& lut_;
};

template <typename Format, int kTokens, bool kExact, bool kWhole, typename Beside = NothingBeside>
__device__ __forceinline__ void multiply_rows(const MatvecArgs& args, int block, Beside beside = {}) {
  using Shape = MatvecShape<Format, kTokens, kExact, kWhole>;
  using Lut = LutOf<Format, kExact>;
  using LutFiller = typename Lut::template Filler<kMatvecThreads>;
  const bool dataflow = !Shape::kFloat && args.dataflow_input; // float formats load weights first
  let_successor_start();
  stamp(args.stamps, kStarts);
  beside.start();
  const Shape shape(args);
  typename ActivationStage<Format, Shape>::Values values;
  ActivationStage<Format, Shape> input(args, shape, dataflow, values);
  const BlockRows<Format> rows(args, block);
  const MatvecShared<Format, Shape> memory(shape, rows.count);

  // About 2 KB of weights per warp precede the activations, which would otherwise queue behind a whole ring.
  using Ring = WeightRing<Format, Shape>;
  Ring ring(args, shape, rows, memory.ring, memory.chunks);
  const LutFiller filler(threadIdx.x);
  ring.template fetch_early<Shape::kFloat ? Ring::kSlots - 1 : Chunks<Format>::kEarly>(input.expert_offset());
  rows.store_addresses(memory.chunks, args.is_shared(shape.slot), shape.threads);
  filler.store(memory.lut);
  // the shares of warps that the block lacks
  for (int t = threadIdx.x + shape.threads; t < kMatvecThreads; t += shape.threads) LutFiller(t).store(memory.lut);
  const Lut lut(memory.lut);
  __syncthreads();
  beside.prepare(rows);

  if (!dataflow) wait_for_predecessor();
  stamp(args.stamps, kPredecessorDone);
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t >= shape.tokens) continue;
    float squares = input.stage(t, memory.activations + t * memory.token_bytes, ring, beside);
    if (args.norm_weight) {
      squares = warp_sum(squares);
      if (shape.lane == 0) memory.squares[t * shape.warps + shape.warp] = squares;
    }
  }
  beside.finish();
  const MatvecEpilogue<Format, Shape> epilogue(args, shape, rows, dataflow);
  float residual[kTokens] = {}, scale[kTokens];
  epilogue.load_residual(residual);
  __syncthreads();
  stamp(args.stamps, kInputLoaded);
  beside.publish();
  epilogue.find_scales(scale, memory.squares);

  ChunkProducts<Format, Shape>(shape, memory, lut).multiply(ring, rows.count, beside);
  beside.gather();
  __syncthreads();
  epilogue.write(memory.sums, scale, residual, beside);
  stamp(args.stamps, kEnds);
  if (dataflow) wait_for_predecessor(); // waiting for this kernel then includes its predecessors
}

template <typename Format, int kTokens, bool kExact, bool kWhole>
__global__ void __launch_bounds__(kMatvecThreads, 1) matvec_kernel(const __grid_constant__ MatvecArgs args) {
  multiply_rows<Format, kTokens, kExact, kWhole>(args, blockIdx.x);
}

// The last blocks choose one token's experts each.
template <typename Format, int kTokens>
__global__ void __launch_bounds__(kMatvecThreads, 1)
    matvec_router_kernel(const __grid_constant__ MatvecArgs args, const __grid_constant__ RouterRows router) {
  const int token = static_cast<int>(blockIdx.x + args.tokens - gridDim.x);
  if (token >= 0)
    choose_experts(args, router, token);
  else
    multiply_rows<Format, kTokens, false, true>(args, blockIdx.x, RouterScores<kTokens>(router, args));
}

template <typename First, typename Second, int kTokens>
__global__ void __launch_bounds__(kMatvecThreads, 1)
    matvec_pair_kernel(const __grid_constant__ MatvecArgs first, const __grid_constant__ MatvecArgs second,
                       int first_blocks) {
  const int block = blockIdx.x;
  if (block < first_blocks)
    multiply_rows<First, kTokens, false, true>(first, block);
  else
    multiply_rows<Second, kTokens, false, true>(second, block - first_blocks);
}

// Blocks that start first have rows of A and the fewest row blocks; then come those with the most.
__device__ __forceinline__ int block_of_turn(int turn, int blocks, const AdapterArgs& adapter) {
  return turn < adapter.cut.blocks ? blocks - 1 - turn : turn - adapter.cut.blocks;
}

template <typename Format, int kTokens, bool kWhole, int kRows>
__global__ void __launch_bounds__(kMatvecThreads, 1)
    matvec_adapted_kernel(const __grid_constant__ MatvecArgs args, const __grid_constant__ AdapterArgs adapter) {
  const int turn = blockIdx.x;
  multiply_rows<Format, kTokens, false, kWhole>(args, block_of_turn(turn, gridDim.x, adapter),
                                                AdapterRows<kTokens, kRows>(adapter, args, turn));
}

template <typename First, typename Second, int kTokens, int kRows>
__global__ void __launch_bounds__(kMatvecThreads, 1)
    matvec_adapted_pair_kernel(const __grid_constant__ MatvecArgs first, const __grid_constant__ AdapterArgs of_first,
                               const __grid_constant__ MatvecArgs second, const __grid_constant__ AdapterArgs of_second,
                               int first_blocks) {
  const int turn = blockIdx.x, in_second = turn - first_blocks, second_blocks = gridDim.x - first_blocks;
  if (turn < first_blocks)
    multiply_rows<First, kTokens, false, true>(first, block_of_turn(turn, first_blocks, of_first),
                                               AdapterRows<kTokens, kRows>(of_first, first, turn));
  else
    multiply_rows<Second, kTokens, false, true>(second, block_of_turn(in_second, second_blocks, of_second),
                                                AdapterRows<kTokens, kRows>(of_second, second, in_second));
}

} // namespace ridge::kernels::cuda
