// A panel times tiles of 16 tokens by AMX, for weight scales per 32 columns (with those per 16, VNNI is as fast).
//
// A tile product is the exact integer sums of one group of columns for 16 tokens and 16 rows. It leaves the tile
// registers through memory, to be scaled and added in the order of kernels.h. Reading it at once would wait for the
// store, so the next block's groups are multiplied while one 16 × 16 block's are added.
#if defined(RIDGE_CPU_AMX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_AMX_INL_H
#undef RIDGE_CPU_AMX_INL_H
#else
#define RIDGE_CPU_AMX_INL_H
#endif

#include "kernels/cpu/formats/simd-inl.h"

#include <algorithm>

#undef RIDGE_AMX
#if HWY_TARGET == HWY_AVX3_DL
#define RIDGE_AMX 1
#else
#define RIDGE_AMX 0
#endif

#if RIDGE_AMX
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kTokens16 = TokenTile::kTokens, kGroup32 = TokenTile::kGroup;
inline constexpr int64_t kGroupBytes = kTokens16 * kGroup32;
inline constexpr int64_t kParts32 = kChunk / kGroup32, kPartGroups = kCodePanelCols / kChunk;

// out[g][t] = rows[t][2 g], for groups of 32.
HWY_INLINE void transpose_groups(const float* const (&rows)[kTokens16], int64_t groups, float* out) {
  alignas(64) float once[kTokens16][16], spread[16][kTokens16];
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
  for (int64_t g = 0; g < groups; g += kParts32, out += kParts32 * kTokens16) {
    for (int64_t t = 0; t < kTokens16; ++t)
      _mm512_store_ps(once[t], _mm512_permutexvar_ps(even, _mm512_loadu_ps(rows[t] + 2 * g)));
    transpose16(reinterpret_cast<const uint32_t*>(once[0]), 16, reinterpret_cast<uint32_t*>(spread[0]), kTokens16);
    std::memcpy(out, spread, kParts32 * kTokens16 * sizeof(float));
  }
}

void arrange_tokens(const QuantizedRow* x, int64_t tokens, TokenTile out) {
  const int64_t groups = out.cols / kGroup32;
  if (tokens < kTokens16) std::memset(out.data, 0, TokenTile::bytes(out.cols, out.wide));
  const float *scale[kTokens16], *sum[kTokens16];
  for (int64_t t = 0; t < kTokens16; ++t) {
    const QuantizedRow& row = x[std::min(t, tokens - 1)];
    scale[t] = row.scale();
    sum[t] = row.sum32();
    for (int64_t g = 0; t < tokens && g < groups; ++g) {
      std::memcpy(out.code() + g * kGroupBytes + t * kGroup32, row.code() + g * kGroup32, kGroup32);
      if (out.wide) std::memcpy(out.low() + g * kGroupBytes + t * kGroup32, row.low() + g * kGroup32, kGroup32);
    }
  }
  transpose_groups(scale, groups, out.scale());
  transpose_groups(sum, groups, out.sum());
}

// AMX tiles 0 and 1: products; 2 and 3: tokens' codes; 4: weights.
struct alignas(64) AmxShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, kGroup32, kGroup32, 64};
  uint8_t rows[16] = {16, 16, 16, 16, kGroup32 / 4};
};

// The memory clobbers keep these in order with other stores and loads.
template <int kTile>
HWY_INLINE void load_tile(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
}
template <int kProduct, int kCodes>
HWY_INLINE void store_product(int32_t* out) {
  asm volatile("tilezero %%tmm%c0\n\ttdpbssd %%tmm4, %%tmm%c1, %%tmm%c0\n\ttilestored %%tmm%c0, (%2,%3,1)"
               :
               : "i"(kProduct), "i"(kCodes), "r"(out), "r"(int64_t{64})
               : "memory");
}

using SignedCodes = int32_t[kPanelRows]; // four bytes of each row
using Products = int32_t[2][kTokens16][16];

template <bool kHasOffset, bool kWide>
void multiply_tiles_of(const CodePanel& panel, int64_t first_col, int64_t cols, TokenTile x, int64_t count,
                       float* sums) {
  alignas(64) SignedCodes weights[kCodePanelCols / 4]; // signed: no biases
  const VI sign = hn::Set(kI, static_cast<int32_t>(0x80808080));
  for (int64_t i = 0; i < cols / 4; ++i)
    for (int64_t r = 0; r < kPanelRows; r += kLanes)
      hn::Store(hn::Xor(load_int(panel.code[i][r]), sign), kI, weights[i] + r);
  const AmxShapes shapes;
  asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory");

  const int64_t groups = cols / kGroup32, first_group = first_col / kGroup32;
  const int64_t part_stride = count * kTokens16 * kPanelRows;
  struct Block {
    int64_t part = 0, tile = 0, first_row = 0;
    HWY_INLINE void advance() {
      first_row ^= 16;
      if (first_row == 0 && ++part == kParts32) part = 0, ++tile;
    }
  };
  alignas(64) Products products[kPartGroups];
  const auto multiply = [&](const Block& block, int64_t i) HWY_ATTR {
    const int64_t g = block.part + i * kParts32;
    if (g >= groups) return;
    const int8_t* code = x.next(block.tile).code() + (first_group + g) * kGroupBytes;
    load_tile<2>(code, kGroup32);
    load_tile<4>(weights[g * (kGroup32 / 4)] + block.first_row, sizeof(SignedCodes));
    store_product<0, 2>(products[i][0][0]);
    if constexpr (kWide) {
      load_tile<3>(code + kTokens16 * x.cols, kGroup32);
      store_product<1, 3>(products[i][1][0]);
    }
  };
  Block block, next;
  for (int64_t i = 0; i < kPartGroups; ++i) multiply(next, i);
  for (int64_t n = 2 * kParts32 * count; n > 0; --n) {
    next.advance();
    float* out = sums + block.part * part_stride + block.tile * kTokens16 * kPanelRows + block.first_row;
    const TokenTile tokens = x.next(block.tile);
    const float* token_scale = tokens.scale() + first_group * kTokens16;
    const float* token_sum = tokens.sum() + first_group * kTokens16;
    VF total[kTokens16];
    HWY_UNROLL(16)
    for (int64_t t = 0; t < kTokens16; ++t)
      total[t] = first_col == 0 ? hn::Zero(kF) : hn::LoadU(kF, out + t * kPanelRows);
    for (int64_t i = 0; i < kPartGroups; ++i) {
      if (const int64_t g = block.part + i * kParts32; g < groups) {
        const VF row_scale = hn::Load(kF, panel.scale[g] + block.first_row);
        HWY_UNROLL(16)
        for (int64_t t = 0; t < kTokens16; ++t) {
          VI dot = hn::Load(kI, products[i][0][t]);
          if constexpr (kWide) dot = hn::Add(hn::ShiftLeft<8>(dot), hn::Load(kI, products[i][1][t]));
          total[t] = hn::MulAdd(hn::Mul(hn::ConvertTo(kF, dot), row_scale), hn::Set(kF, token_scale[g * kTokens16 + t]),
                                total[t]);
        }
        if constexpr (kHasOffset) {
          const VF offset = hn::Load(kF, panel.offset[g] + block.first_row);
          HWY_UNROLL(16)
          for (int64_t t = 0; t < kTokens16; ++t)
            total[t] = hn::MulAdd(offset, hn::Set(kF, token_sum[g * kTokens16 + t]), total[t]);
        }
      }
      if (n > 1) multiply(next, i);
    }
    HWY_UNROLL(16)
    for (int64_t t = 0; t < kTokens16; ++t) hn::StoreU(total[t], kF, out + t * kPanelRows);
    block = next;
  }
  asm volatile("tilerelease");
}

void multiply_tiles(const CodePanel& panel, bool has_offset, int64_t first_col, int64_t cols, TokenTile x,
                    int64_t count, float* sums) {
  const auto multiply = x.wide ? (has_offset ? multiply_tiles_of<true, true> : multiply_tiles_of<false, true>)
                               : (has_offset ? multiply_tiles_of<true, false> : multiply_tiles_of<false, false>);
  multiply(panel, first_col, cols, x, count, sums);
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_AMX

#endif
