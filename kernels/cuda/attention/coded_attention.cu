// Attention over caches of codes, for one token or a few, with up to eight rows (token, query head) per tile.
//
// Unpacking bounds attention.cu, so here codes stay codes up to mma (mma_codes.cuh), and each warp goes alone: it
// copies its steps of 16 keys and values, multiplies, and keeps its own maxima and sums. A maximum rises only when a
// score is far above. Warps meet once, at the end. kRope: as in attention.cu; the block that has the newest token makes
// its codes in shared memory.
#include "kernels/cuda/attention/attention_fetch.cuh"
#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/attention/attention_rounds.cuh"
#include "kernels/cuda/attention/coded_attention.h"
#include "kernels/cuda/attention/coded_steps.cuh"

namespace ridge::kernels::cuda {
namespace {

template <int kDim, NewTokens kNew>
struct CodedShape : AttentionShape<kDim, false, true, true, 1, kNew> {
  static constexpr bool kVectorsInF32 = true;
};

constexpr float kSlack = 2, kNoReference = -1e30f;

template <class Step>
struct CodedBlock {
  static constexpr int kDim = decltype(Step::keys)::kDim, kRows = 8;
  using Outputs = float[kAttentionWarps][kRows][kDim + 1]; // of warps; in the memory of steps
  static constexpr int kStageBytes = kAttentionWarps * sizeof(Step);
};

// By a warp.
__device__ __forceinline__ void copy_words(void* to, const void* from, int bytes) {
  for (int i = threadIdx.x % kWarp; i < bytes / 4; i += kWarp)
    static_cast<uint32_t*>(to)[i] = static_cast<const uint32_t*>(from)[i];
}
// Copies a row that is not in the cache yet.
template <class Codes, int kDim>
__device__ __forceinline__ void put_row(CodedRows<Codes, kDim, kKeysPerWarp>& to, int row,
                                        const CodedRows<Codes, kDim, 1>& from) {
  copy_words(to.codes[row], from.codes[0], from.kRowBytes);
  copy_words(to.scales[row], from.scales[0], sizeof(from.scales[0]));
  if constexpr (Codes::kMinima) copy_words(to.minima[row], from.minima[0], sizeof(from.minima[0]));
  if constexpr (Codes::kHighBits) copy_words(to.high_bits[row], from.high_bits[0], kDim / 8);
}
template <class Codes, int kDim>
__device__ __forceinline__ void write_row(const CacheTarget& to, int64_t row, const CodedRows<Codes, kDim, 1>& from) {
  constexpr int kBlocks = kDim / 32;
  copy_words(static_cast<uint8_t*>(to.data) + row * from.kRowBytes, from.codes[0], from.kRowBytes);
  copy_words(to.blocks.scales + row * kBlocks, from.scales[0], sizeof(from.scales[0]));
  if (Codes::kMinima && to.blocks.minima)
    copy_words(to.blocks.minima + row * kBlocks, from.minima[0], sizeof(from.minima[0]));
  if constexpr (Codes::kHighBits) copy_words(to.blocks.high_bits + row * (kDim / 8), from.high_bits[0], kDim / 8);
}

template <class Codes, int kDim>
__device__ __forceinline__ CacheTarget row_target(CodedRows<Codes, kDim, 1>& to, bool minima) {
  return {to.codes[0],
          Codes::type(minima),
          {to.scales[0], minima ? to.minima[0] : nullptr, Codes::kHighBits ? to.high_bits[0] : nullptr}};
}

// A warp's weights: exponentials of scores of keys g and g + 8 less a reference, for queries 2 t and 2 t + 1; at most
// 2^(kHeadroom + kSlack).
template <int kHeadroom>
struct RunningSoftmax {
  float reference[2] = {kNoReference, kNoReference}, sum[2] = {};

  // `score`: times 2^-24. Raises references first if need be, by `rescale`.
  template <class Rescale>
  __device__ __forceinline__ void run(const float (&score)[4], uint32_t (&weights)[2], const Rescale& rescale) {
    float most[2];
    bool above = false;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      most[k] = fmaxf(score[k], score[2 + k]);
      above |= most[k] > (reference[k] + (kHeadroom + kSlack)) * kSubnormal;
    }
    if (__any_sync(~0u, above)) {
      float factor[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        for (int lanes = 4; lanes < kWarp; lanes *= 2) most[k] = fmaxf(most[k], __shfl_xor_sync(~0u, most[k], lanes));
        const float raised = fmaxf(reference[k], most[k] / kSubnormal - kHeadroom);
        factor[k] = exp2_approx(reference[k] - raised);
        reference[k] = raised;
        sum[k] *= factor[k];
      }
      rescale(factor);
    }
    float p[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) p[i] = exp2_approx(score[i] / kSubnormal - reference[i % 2]);
    sum[0] += p[0] + p[2], sum[1] += p[1] + p[3];
    weights[0] = transposed_8x8(pack_half2(p[0], p[1])), weights[1] = transposed_8x8(pack_half2(p[2], p[3]));
  }
};

template <class Step, NewTokens kNew>
__global__ void __launch_bounds__(kAttentionThreads, attention_blocks_per_sm(CodedBlock<Step>::kDim))
    coded_attention_kernel(const __grid_constant__ AttentionArgs args, const __grid_constant__ RopeStoreArgs heads) {
  constexpr int kDim = CodedBlock<Step>::kDim, kBlocks = kDim / 32, kRows = CodedBlock<Step>::kRows;
  using Shape = CodedShape<kDim, kNew>;
  using KeyCodes = typename decltype(Step::keys)::Codes;
  using ValueCodes = typename decltype(Step::values)::Codes;
  constexpr bool kRope = Shape::kRope;
  extern __shared__ uint4 dynamic[];
  __shared__ __align__(16) Queries<Shape> query;
  __shared__ NewestOf<Shape> newest;
  __shared__ __align__(16) QueryOperands<KeyCodes, kDim> operands;
  __shared__ CodedStep<KeyCodes, ValueCodes, kDim, 1> newest_codes;
  __shared__ float references[kRows][kAttentionWarps], sums[kRows][kAttentionWarps];
  AttentionBlock<Shape> block(args);
  const Cache& cache = args.cache;
  const int lane = block.lane, warp = block.warp, g = block.g, t = block.t;
  let_successor_start();
  stamp(args.stamps, kStarts);

  const int64_t stream = args.streams[block.first_token];
  const int length = args.positions[block.first_token + block.tokens - 1] + 1;
  const RopePair rope(heads, kRope, threadIdx.x);
  __syncwarp(); // keeps the assembler from serializing loads
  if (!block.take_split(stream, length)) return;
  if constexpr (!kRope) {
    wait_for_predecessor(); // stores the newest keys
    stamp(args.stamps, kPredecessorDone);
  }

  const bool three_stages = dynamic_shared_bytes() >= 3 * CodedBlock<Step>::kStageBytes;
  const int stages = three_stages ? 3 : 2;
  Step* const steps = reinterpret_cast<Step*>(dynamic) + warp * stages;
  const RowCopies<KeyCodes, kDim> keys(cached_keys(cache), block.head_at);
  const RowCopies<ValueCodes, kDim> values(cached_values(cache), block.head_at);
  const int stored = block.last_stored(), stored_end = kRope ? min(block.end, length - 1) : block.end;
  const auto fetch = [&](Step& to, int base) {
    if (base < block.end) {
      const int count = stored_end - base;
      const int64_t row = block.row_of(base);
      const auto copy = [&](const auto& row_of) {
        keys.start(to.keys, row_of, count);
        values.start(to.values, row_of, count);
      };
      if (count >= kKeysPerWarp && row + kKeysPerWarp <= cache.rows)
        copy([=](int key) { return row + key; });
      else
        copy([&](int key) { return int64_t{block.row_of(min(base + key, stored))}; });
    }
    copy_async_commit();
  };
  const int first = block.begin + warp * kKeysPerWarp;
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) fetch(steps[stage], first + stage * kKeysPerRound);

  operands.clear();
  AttentionVectors<Shape>(block, heads).store(query, newest, rope);
  __syncthreads();
  const bool key_minima = KeyCodes::kMinima && cache.k_blocks.minima,
             value_minima = ValueCodes::kMinima && cache.v_blocks.minima;
  const core::KvType key_type = KeyCodes::type(key_minima), value_type = ValueCodes::type(value_minima);
#pragma unroll 1
  for (int i = warp; i < block.rows * kBlocks; i += 2 * kAttentionWarps) { // two at a time, to overlap latencies
    const int both[] = {i, i + kAttentionWarps < block.rows * kBlocks ? i + kAttentionWarps : i};
#pragma unroll
    for (const int at : both) {
      float each[] = {query[at / kBlocks][at % kBlocks * 32 + lane]};
      if (core::is_rotated(key_type)) rotate_lanes(each);
      operands.put(at / kBlocks, at % kBlocks, each[0]);
    }
  }
  if constexpr (kRope)
    if (block.has_newest()) { // half of the warps make the key's codes, the others the value's
      constexpr int kHalf = kAttentionWarps / 2;
      const bool is_key = warp < kHalf;
      CacheTarget to = row_target(newest_codes.keys, key_minima);
      if (!is_key) to = row_target(newest_codes.values, value_minima);
      to.type = is_key ? key_type : value_type; // often one constant
      store_codes(is_key ? newest.key : newest.value, kDim, 0, to, warp % kHalf, kHalf);
    }
  __syncthreads();
  if constexpr (kRope)
    if (block.has_newest() && warp < 2) {
      const int64_t row = block.head_at + block.row_of(length - 1);
      warp == 0 ? write_row(key_target(cache), row, newest_codes.keys)
                : write_row(value_target(cache), row, newest_codes.values);
    }
  stamp(args.stamps, kInputLoaded);

  const QueryOperand<KeyCodes, kDim> operand(operands);
  const float key_zero = (key_minima ? 1 : -zero_code(key_type)) * kSubnormal;
  int visible[1][2];
  find_visible<Shape>(visible, block);
  const int all_see = Shape::kTokenTiles ? block.end : min(block.end, args.positions[block.first_token] + 1);
  RunningSoftmax<ValueCodes::kHeadroom> softmax;
  CodedOutputs<ValueCodes, kDim> outputs;
  outputs.clear();
  int stage = 0;
#pragma unroll 1
  for (int base = first; base < block.end; base += kKeysPerRound) {
    three_stages ? copy_async_wait<2>() : copy_async_wait<1>();
    __syncwarp(); // all lanes' copies are there
    Step& step = steps[stage];
    if constexpr (kRope)
      if (const int row = length - 1 - base; row >= 0 && row < kKeysPerWarp) {
        put_row(step.keys, row, newest_codes.keys);
        put_row(step.values, row, newest_codes.values);
        __syncwarp();
      }
    float score[4];
    score_codes(score, step.keys, operand, key_minima, key_zero);
    if (args.soft_cap > 0) {
      const float cap = args.soft_cap * kLog2e, by = 2 * kLog2e / cap;
#pragma unroll
      for (float& s : score)
        s = (cap - 2 * cap * reciprocal(exp2_approx(s / kSubnormal * by) + 1)) * kSubnormal; // cap * tanh(s / cap)
    }
    if (base + kKeysPerWarp > all_see)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (base + g + i / 2 * 8 >= visible[0][i % 2]) score[i] = -INFINITY;
    uint32_t weights[2];
    softmax.run(score, weights, [&](const float(&factor)[2]) { outputs.rescale(factor); });
    outputs.add(step.values, weights, value_minima);
    __syncwarp(); // the step has been read
    fetch(step, base + stages * kKeysPerRound);
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
  copy_async_wait<0>();

  // Outputs in place of steps.
  __syncthreads();
  static_assert(sizeof(typename CodedBlock<Step>::Outputs) <= 2 * CodedBlock<Step>::kStageBytes);
  auto& parts = *reinterpret_cast<typename CodedBlock<Step>::Outputs*>(dynamic);
  const float value_zero = value_minima ? 1 : -zero_code(value_type);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = 2 * t + k;
    for (int lanes = 4; lanes < kWarp; lanes *= 2) softmax.sum[k] += __shfl_xor_sync(~0u, softmax.sum[k], lanes);
    if (g == 0) references[row][warp] = softmax.reference[k], sums[row][warp] = softmax.sum[k];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const float offset = __shfl_sync(~0u, outputs.offset[k], 4 * b + t) * value_zero;
      if (row < block.rows)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          parts[warp][row][32 * b + ValueCodes::column(i, g)] =
              outputs.out[b][i / 2][i % 2 * 2 + k] / (kSubnormal * (1 << ValueCodes::shift(i))) + offset;
    }
  }
  __syncthreads();
  if (const int row = warp; row < block.rows) {
    const float sink = args.sinks && block.split == 0
                           ? args.sinks[block.kv_head * block.group + block.head_of(row)] * kLog2e
                           : -INFINITY;
    const float reference = references[row][lane % kAttentionWarps];
    const float most = fmaxf(sink, warp_reduce(
                                       reference, [](float a, float b) { return fmaxf(a, b); }, kAttentionWarps));
    const float factor = exp2_approx(reference - most);
    const float total =
        warp_reduce(
            factor * sums[row][lane % kAttentionWarps], [](float a, float b) { return a + b; }, kAttentionWarps) +
        exp2_approx(sink - most);
    float each[kBlocks] = {};
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) {
      const float of_warp = __shfl_sync(~0u, factor, w);
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) each[b] += of_warp * parts[w][row][32 * b + lane];
    }
    const bool alone = block.used_splits == 1;
    float* part = block.parts() + block.split * block.part_size();
    float* to = (alone ? block.result(row) : part + 2 * kAttentionRows + row * kDim) + lane;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      float x[] = {alone ? each[b] / total : each[b]};
      if (alone && core::is_rotated(value_type)) rotate_lanes(x);
      store_latest(to + 32 * b, x[0]);
    }
    if (!alone && lane == 0) part[row] = most, part[kAttentionRows + row] = total;
  }

  if (block.used_splits > 1 && !merge_splits(block, dynamic)) {
    stamp_latest(args.stamps, kEnds);
    return;
  }
  stamp_latest(args.stamps, kEnds);
  if (kRope && heads.dataflow_input) wait_for_predecessor(); // successors rely on it (ptx.cuh)
}

// attention.cu is up to 4 % faster over fewer q8_0 positions, where latency counts.
constexpr int64_t kLongCache = 16384;

// Calls `use` with a step of the cache's types and width; returns its result, or false if there is none.
template <class KeyCodes, class ValueCodes, class Use>
bool with_width(int dim, const Use& use) {
  switch (dim) {
  case 64: return use(CodedStep<KeyCodes, ValueCodes, 64>{});
  case 128: return use(CodedStep<KeyCodes, ValueCodes, 128>{});
  case 256: return use(CodedStep<KeyCodes, ValueCodes, 256>{});
  default: return false;
  }
}
template <class Use>
bool with_step(const Cache& cache, const Use& use) {
  using enum core::KvType;
  const auto nibbles = [](core::KvType type) { return type == q4_0 || type == q4_1; };
  const auto fives = [](core::KvType type) { return type == q5_0 || type == q5_1; };
  const core::KvType k = cache.k_type, v = cache.v_type;
  if (cache.k_dim != cache.v_dim) return false;
  if (nibbles(k) && nibbles(v)) return with_width<NibbleCodes, NibbleCodes>(cache.k_dim, use);
  if (fives(k) && fives(v)) return with_width<FiveBitCodes, FiveBitCodes>(cache.k_dim, use);
  if (k == iq4_nl && v == iq4_nl) return with_width<LevelCodes, LevelCodes>(cache.k_dim, use);
  if (k == q8_0 && v == q8_0)
    return cache.rows * cache.streams >= kLongCache && with_width<ByteCodes, ByteCodes>(cache.k_dim, use);
  if (k == q8_0 && nibbles(v)) return with_width<ByteCodes, NibbleCodes>(cache.k_dim, use);
  return false;
}

// As many as let all blocks of a multiprocessor run, but at least two; 0: they do not fit.
template <class Step>
int stages_of(const ChipLimits& chip) {
  constexpr int kDim = CodedBlock<Step>::kDim, kBlocks = attention_blocks_per_sm(kDim), kStatic = 64 * kDim + 4096;
  const auto fits = [&](int stages, int blocks) {
    return blocks * (stages * CodedBlock<Step>::kStageBytes + kStatic) <= chip.shared_per_block;
  };
  return fits(3, kBlocks) ? 3 : fits(2, 1) ? 2 : 0;
}

template <NewTokens kNew>
void launch_for(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  with_step(args.cache, [&]<class Step>(const Step&) {
    const int bytes = stages_of<Step>(launch) * CodedBlock<Step>::kStageBytes;
    const auto kernel = coded_attention_kernel<Step, kNew>;
    allow_dynamic_shared_memory(kernel, bytes);
    const int tiles = (args.tokens + args.tile_tokens - 1) / args.tile_tokens;
    // Heads first: in short contexts blocks with work start first.
    launch(kernel, dim3(args.cache.heads, args.splits, tiles), kAttentionThreads, bytes, args, heads);
    return true;
  });
}

} // namespace

bool has_coded_attention(const Cache& cache, int rows, const ChipLimits& chip) {
  constexpr int kMinShared = 80 << 10; // copies are asynchronous from sm_80 on
  if (rows > 8 || chip.shared_per_block < kMinShared) return false;
  // Copies of 16 bytes need aligned planes.
  if (cache.streams * cache.heads * cache.rows % 2 != 0) return false;
  return with_step(cache, [&]<class Step>(const Step&) { return stages_of<Step>(chip) > 0; });
}

void launch_coded_attention(const Launch& launch, const AttentionArgs& args) {
  launch_for<NewTokens::stored>(launch, args, {});
}
void launch_coded_rope_attention(const Launch& launch, const AttentionArgs& args, const RopeStoreArgs& heads) {
  launch_for<NewTokens::alone>(launch, args, heads);
}

} // namespace ridge::kernels::cuda
