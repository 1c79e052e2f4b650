// Unpacks 256 weights into byte codes, with a scale and offset per 16:
//
//   w[i] = scale[i / 16] * (code[i] - kBias) + offset[i / 16],   code unsigned; on arm64 signed, and kBias 0
//
// The generic Unpacker uses the format's `unpack`; other headers specialize it.
#if defined(RIDGE_CPU_UNPACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_INL_H
#undef RIDGE_CPU_UNPACK_INL_H
#else
#define RIDGE_CPU_UNPACK_INL_H
#endif

#include "kernels/cpu/formats/partial_sums-inl.h"
#include "kernels/cpu/formats/simd-inl.h"
#include "quant/formats/group.h"

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kScaleVectors = kSumVectors;
inline constexpr bool kSignedCodes = RIDGE_NEON;
using CodeByte = std::conditional_t<kSignedCodes, int8_t, uint8_t>;

struct Chunk {
  VI code[kCodeVectors];
  VF scale[kScaleVectors], offset[kScaleVectors];
};

template <typename Format>
struct Unpacker {
  static constexpr int kBias = kSignedCodes ? 0 : 128;

  static HWY_INLINE void unpack(const Format* blocks, Chunk& out) {
    alignas(64) int8_t code[kChunk];
    alignas(64) float scale[kChunk / 16], offset[kChunk / 16];
    constexpr int kGroups = Format::kWeights / quant::kGroupWeights;
    for (int g = 0; g < kChunk / quant::kGroupWeights; ++g) {
      quant::Group group;
      blocks[g / kGroups].unpack(g % kGroups, group);
      std::memcpy(code + quant::kGroupWeights * g, group.code, quant::kGroupWeights);
      std::memcpy(scale + 2 * g, group.scale, sizeof group.scale);
      if (Format::kHasOffset) std::memcpy(offset + 2 * g, group.offset, sizeof group.offset);
    }
    const VI flip = hn::Set(kI, kSignedCodes ? 0 : static_cast<int32_t>(0x80808080u)); // code + 128
    for (int64_t j = 0; j < kCodeVectors; ++j) out.code[j] = hn::Xor(load_int(code + 4 * kLanes * j), flip);
    for (int64_t j = 0; j < kScaleVectors; ++j) {
      out.scale[j] = hn::LoadU(kF, scale + kLanes * j);
      if (Format::kHasOffset) out.offset[j] = hn::LoadU(kF, offset + kLanes * j);
    }
  }
};

// From `column`; zero bytes past the row's end.
template <typename Format>
class ChunkBlocks {
 public:
  HWY_INLINE ChunkBlocks(const std::byte* row, int64_t cols, int64_t column) {
    blocks_ = reinterpret_cast<const Format*>(row) + column / Format::kWeights;
    if (cols - column >= kChunk) return;
    std::memset(static_cast<void*>(padded_), 0, sizeof padded_);
    std::memcpy(static_cast<void*>(padded_), blocks_, (cols - column) / Format::kWeights * sizeof(Format));
    blocks_ = padded_;
  }
  HWY_INLINE const Format* get() const { return blocks_; }

 private:
  const Format* blocks_;
  Format padded_[kChunk / Format::kWeights];
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
