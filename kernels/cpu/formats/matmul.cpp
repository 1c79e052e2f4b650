// Matrix tiles: a panel of 32 unpacked rows times several tokens.
//
// A vector holds weights of several rows against four broadcast bytes of a token: no sum crosses lanes. x86's byte dot
// products need an unsigned operand, so codes are stored plus 128 and integer sums start at −128 × Σ activations.
#include "kernels/cpu/formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/formats/matmul.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/formats/amx-inl.h"
#include "kernels/cpu/formats/dots_neon-inl.h"
#include "kernels/cpu/formats/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

// The sums fill the registers.
inline constexpr int kTileTokens = RIDGE_WIDE ? 6 : kManyRegisters ? 4 : 2, kWideTileTokens = kManyRegisters ? 4 : 1;

template <int kTokens>
HWY_INLINE void load_sums(const float* sums, bool begins, VF (&total)[2][kTokens]) {
  HWY_UNROLL(8)
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < 2; ++v) total[v][t] = begins ? hn::Zero(kF) : hn::LoadU(kF, sums + t * kPanelRows + v * kLanes);
}
template <int kTokens>
HWY_INLINE void store_sums(const VF (&total)[2][kTokens], float* sums) {
  HWY_UNROLL(8)
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < 2; ++v) hn::StoreU(total[v][t], kF, sums + t * kPanelRows + v * kLanes);
}

// Integer sums of a group of columns from `column`, for 2 kLanes rows from `weights`. low and bias: of wide inputs, and
// where codes are unsigned.
template <ByteDots kDots, int kGroup, bool kWide, int kTokens>
HWY_INLINE void multiply_group(const uint8_t* weights, int64_t column, const int8_t* const (&code)[kTokens],
                               const int8_t* const (&low)[kTokens],
                               [[maybe_unused]] const int32_t* const (&bias)[kTokens], VI (&dot)[2][kTokens]) {
#if RIDGE_NEON
  const int8_t* x[kTokens];
  HWY_UNROLL(8)
  for (int t = 0; t < kTokens; ++t) {
    dot[0][t] = dot[1][t] = hn::Zero(kI);
    x[t] = code[t] + column;
  }
  add_group<kDots, true, kGroup>(weights, x, dot);
  if constexpr (kWide) {
    HWY_UNROLL(8)
    for (int t = 0; t < kTokens; ++t) {
      for (int v = 0; v < 2; ++v) dot[v][t] = hn::ShiftLeft<8>(dot[v][t]);
      x[t] = low[t] + column;
    }
    add_group<kDots, false, kGroup>(weights, x, dot);
  }
#else
  VI high[2][kTokens]; // wide: 256 * high + dot
  HWY_UNROLL(8)
  for (int t = 0; t < kTokens; ++t) {
    dot[0][t] = dot[1][t] = hn::Set(kI, bias[t][column / 16]);
    if constexpr (kWide) high[0][t] = high[1][t] = hn::Zero(kI);
  }
  HWY_UNROLL(8)
  for (int k = 0; k < kGroup; k += 4, weights += 4 * kPanelRows) {
    const VI w0 = load_int(weights), w1 = load_int(weights + 4 * kLanes);
    HWY_UNROLL(8)
    for (int t = 0; t < kTokens; ++t) {
      const VI a = broadcast4((kWide ? low : code)[t] + column + k);
      dot[0][t] = dot4(dot[0][t], w0, a);
      dot[1][t] = dot4(dot[1][t], w1, a);
      if constexpr (kWide) {
        const VI h = broadcast4(code[t] + column + k);
        high[0][t] = dot4(high[0][t], w0, h);
        high[1][t] = dot4(high[1][t], w1, h);
      }
    }
  }
  if constexpr (kWide) {
    HWY_UNROLL(8)
    for (int t = 0; t < kTokens; ++t)
      for (int v = 0; v < 2; ++v) dot[v][t] = hn::Add(hn::ShiftLeft<8>(high[v][t]), dot[v][t]);
  }
#endif
}

template <int kTokens, ByteDots kDots, bool kScale16, bool kHasOffset, bool kWide>
void codes_tile(const CodePanel& panel, int64_t first_row, int64_t first_col, int64_t cols, const QuantizedRow* x,
                float* sums, int64_t part_stride) {
  constexpr int kGroup = kScale16 ? 16 : 32, kParts = kChunk / kGroup;
  constexpr int kRowBytes = kDots == ByteDots::i8mm ? 8 : 4;
  const int8_t *code[kTokens], *low[kTokens];
  const float *scale[kTokens], *sum[kTokens];
  const int32_t* bias[kTokens];
  HWY_UNROLL(8)
  for (int t = 0; t < kTokens; ++t) {
    code[t] = x[t].code() + first_col;
    low[t] = kWide ? x[t].low() + first_col : nullptr;
    scale[t] = x[t].scale() + first_col / 16;
    sum[t] = (kScale16 ? x[t].sum16() : x[t].sum32()) + first_col / 16;
    bias[t] = (kScale16 ? x[t].bias16() : x[t].bias32()) + first_col / 16;
  }
  for (int64_t part = 0; part < kParts; ++part) {
    VF total[2][kTokens];
    load_sums(sums + part * part_stride + first_row, first_col == 0, total);
    for (int64_t g = part; g < cols / kGroup; g += kParts) {
      const int64_t at = g * (kGroup / 16);
      VI dot[2][kTokens];
      multiply_group<kDots, kGroup, kWide>(panel.code[g * (kGroup / 4)][0] + first_row * kRowBytes, g * kGroup, code,
                                           low, bias, dot);
      const VF s0 = hn::LoadU(kF, panel.scale[g] + first_row), s1 = hn::LoadU(kF, panel.scale[g] + first_row + kLanes);
      HWY_UNROLL(8)
      for (int t = 0; t < kTokens; ++t) {
        const VF factor = hn::Set(kF, scale[t][at]);
        total[0][t] = hn::MulAdd(hn::Mul(hn::ConvertTo(kF, dot[0][t]), s0), factor, total[0][t]);
        total[1][t] = hn::MulAdd(hn::Mul(hn::ConvertTo(kF, dot[1][t]), s1), factor, total[1][t]);
      }
      if constexpr (kHasOffset) {
        const VF o0 = hn::LoadU(kF, panel.offset[g] + first_row);
        const VF o1 = hn::LoadU(kF, panel.offset[g] + first_row + kLanes);
        HWY_UNROLL(8)
        for (int t = 0; t < kTokens; ++t) {
          const VF factor = hn::Set(kF, sum[t][at]);
          total[0][t] = hn::MulAdd(o0, factor, total[0][t]);
          total[1][t] = hn::MulAdd(o1, factor, total[1][t]);
        }
      }
    }
    store_sums(total, sums + part * part_stride + first_row);
  }
}

template <int kTokens>
void floats_tile(const FloatPanel& panel, int64_t first_row, int64_t first_col, int64_t cols, const float* const* x,
                 float* sums, int64_t part_stride) {
  const float* token[kTokens];
  HWY_UNROLL(8)
  for (int t = 0; t < kTokens; ++t) token[t] = x[t] + first_col;
  for (int64_t part = 0; part < kPartialSums; ++part) {
    VF total[2][kTokens];
    load_sums(sums + part * part_stride + first_row, first_col == 0, total);
    const float(*weights)[kPanelRows] = panel.weight + float_panel_place(part);
    for (int64_t k = part; k < cols; k += kPartialSums, ++weights) {
      const VF w0 = hn::LoadU(kF, *weights + first_row), w1 = hn::LoadU(kF, *weights + first_row + kLanes);
      HWY_UNROLL(8)
      for (int t = 0; t < kTokens; ++t) {
        const VF a = hn::Set(kF, token[t][k]);
        total[0][t] = hn::MulAdd(w0, a, total[0][t]);
        total[1][t] = hn::MulAdd(w1, a, total[1][t]);
      }
    }
    store_sums(total, sums + part * part_stride + first_row);
  }
}

template <int kTokens, typename Tile>
HWY_INLINE void with_tokens(int64_t tokens, const Tile& tile) {
  if (tokens == kTokens)
    tile.template run<kTokens>();
  else if constexpr (kTokens > 1)
    with_tokens<kTokens - 1>(tokens, tile);
}

template <ByteDots kDots, bool kScale16, bool kHasOffset, bool kWide>
struct CodesTile {
  const CodePanel& panel;
  int64_t first_col, cols;
  const QuantizedRow* x;
  float* sums;
  int64_t part_stride;
  template <int kTokens>
  void run() const {
    for (int64_t row = 0; row < kPanelRows; row += 2 * kLanes)
      codes_tile<kTokens, kDots, kScale16, kHasOffset, kWide>(panel, row, first_col, cols, x, sums, part_stride);
  }
};

struct FloatsTile {
  const FloatPanel& panel;
  int64_t first_col, cols;
  const float* const* x;
  float* sums;
  int64_t part_stride;
  template <int kTokens>
  void run() const {
    for (int64_t row = 0; row < kPanelRows; row += 2 * kLanes)
      floats_tile<kTokens>(panel, row, first_col, cols, x, sums, part_stride);
  }
};

// Avoids a much smaller last tile.
HWY_INLINE int64_t tile_tokens(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

template <ByteDots kDots, bool kScale16, bool kHasOffset, bool kWide>
void multiply_codes(const CodePanel& panel, int64_t first_col, int64_t cols, const QuantizedRow* x, int64_t tokens,
                    float* sums) {
  constexpr int kMax = kWide ? kWideTileTokens : kTileTokens;
  for (int64_t t = 0; t < tokens;) {
    const int64_t n = tile_tokens(tokens - t, kMax);
    const CodesTile<kDots, kScale16, kHasOffset, kWide> tile{
        panel, first_col, cols, x + t, sums + t * kPanelRows, tokens * kPanelRows};
    with_tokens<kMax>(n, tile);
    t += n;
  }
}

template <ByteDots kDots, bool kWide>
void codes_of(const CodePanel& panel, bool scale16, bool has_offset, int64_t first_col, int64_t cols,
              const QuantizedRow* x, int64_t tokens, float* sums) {
  const auto multiply =
      scale16 ? (has_offset ? multiply_codes<kDots, true, true, kWide> : multiply_codes<kDots, true, false, kWide>)
              : (has_offset ? multiply_codes<kDots, false, true, kWide> : multiply_codes<kDots, false, false, kWide>);
  multiply(panel, first_col, cols, x, tokens, sums);
}

template <ByteDots kDots>
void codes_by(const CodePanel& panel, bool scale16, bool has_offset, int64_t first_col, int64_t cols,
              const QuantizedRow* x, int64_t tokens, float* sums) {
  (x[0].wide ? codes_of<kDots, true> : codes_of<kDots, false>)(panel, scale16, has_offset, first_col, cols, x, tokens,
                                                               sums);
}

void codes(const CodePanel& panel, bool scale16, bool has_offset, int64_t first_col, int64_t cols,
           const QuantizedRow* x, int64_t tokens, float* sums) {
  auto* multiply = codes_by<ByteDots::basic>;
#if RIDGE_NEON
  if (byte_dots() == ByteDots::dotprod) multiply = codes_by<ByteDots::dotprod>;
  if (byte_dots() == ByteDots::i8mm) multiply = codes_by<ByteDots::i8mm>;
#endif
  multiply(panel, scale16, has_offset, first_col, cols, x, tokens, sums);
}

void floats(const FloatPanel& panel, int64_t first_col, int64_t cols, const float* const* x, int64_t tokens,
            float* sums) {
  for (int64_t t = 0; t < tokens;) {
    const int64_t n = tile_tokens(tokens - t, kTileTokens);
    with_tokens<kTileTokens>(n, FloatsTile{panel, first_col, cols, x + t, sums + t * kPanelRows, tokens * kPanelRows});
    t += n;
  }
}

// kParts: kPartialSums or half.
template <int kParts>
HWY_INLINE VF total_of(const float* sums, int64_t part_stride) {
  VF part[kParts];
  HWY_UNROLL(16)
  for (int p = 0; p < kParts; ++p) part[p] = hn::LoadU(kF, sums + p * part_stride);
  HWY_UNROLL(4)
  for (int step = kParts / 2; step > 0; step /= 2)
    for (int p = 0; p < step; ++p) part[p] = hn::Add(part[p], part[p + step]);
  return part[0];
}

void join_sums(const float* sums, int64_t count, int64_t stride, int64_t tokens, int64_t rows, const float* bias,
               float* const* out) {
  alignas(64) float last[kPanelRows], biases[kPanelRows] = {};
  if (bias) std::copy_n(bias, rows, biases);
  for (int64_t t = 0; t < tokens; ++t, sums += kPanelRows) {
    float* to = rows < kPanelRows ? last : out[t];
    for (int64_t r = 0; r < kPanelRows; r += kLanes) {
      VF total = count == kPartialSums ? total_of<kPartialSums>(sums + r, stride * kPanelRows)
                                       : total_of<kPartialSums / 2>(sums + r, stride * kPanelRows);
      if (bias) total = hn::Add(total, hn::Load(kF, biases + r));
      hn::StoreU(total, kF, to + r);
    }
    if (rows < kPanelRows) std::copy_n(last, rows, out[t]);
  }
}

const MatmulKernels* table() {
  static constexpr MatmulKernels kTable = {codes, floats, join_sums, nullptr, nullptr};
#if RIDGE_AMX
  static constexpr MatmulKernels kTiled = {codes, floats, join_sums, arrange_tokens, multiply_tiles};
  if (byte_dots() == ByteDots::amx) return &kTiled;
#endif
  return &kTable;
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::kernels::cpu {
HWY_EXPORT(table);
const MatmulKernels& matmul_kernels() { return *HWY_DYNAMIC_DISPATCH(table)(); }
} // namespace ridge::kernels::cpu
#endif
