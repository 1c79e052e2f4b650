// Pairs of types that attention over codes is compiled for.
#include "kernels/cuda/attention/coded_attention.cuh"

namespace ridge::kernels::cuda {
namespace {

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
