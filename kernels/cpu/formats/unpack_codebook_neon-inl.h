// Unpackers of arm64 for codebook, very small, and AWQ and GPTQ formats.
#if defined(RIDGE_CPU_UNPACK_CODEBOOK_NEON_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_UNPACK_CODEBOOK_NEON_INL_H
#undef RIDGE_CPU_UNPACK_CODEBOOK_NEON_INL_H
#else
#define RIDGE_CPU_UNPACK_CODEBOOK_NEON_INL_H
#endif

#include "kernels/cpu/formats/unpack_neon-inl.h"

#if RIDGE_NEON
HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE int8x16_t two_points(uint64_t first, uint64_t second) {
  return vcombine_s8(vcreate_s8(first), vcreate_s8(second));
}
// 0xff where a bit is set.
HWY_INLINE uint8x16_t mask_of(uint8_t first, uint8_t second) {
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  return vtstq_u8(vcombine_u8(vdup_n_u8(first), vdup_n_u8(second)), bit);
}
HWY_INLINE int8x16_t negated(int8x16_t codes, uint8x16_t mask) {
  const int8x16_t minus = vreinterpretq_s8_u8(mask);
  return vsubq_s8(veorq_s8(codes, minus), minus);
}

// Group g: eight weights i are point(i) with signs(i).
template <typename Point, typename Signs>
HWY_INLINE void set_points(const Point& point, const Signs& signs, VI* code) {
  for (int h = 0; h < 2; ++h) {
    const int8x16_t codes = two_points(point(2 * h), point(2 * h + 1));
    code[h].raw = vreinterpretq_s32_s8(negated(codes, mask_of(signs(2 * h), signs(2 * h + 1))));
  }
}
// d * (0.5 + n) * 0.25 for the nibbles of eight bytes, low nibbles first.
HWY_INLINE void half_steps(const uint8_t* nibbles, float d, VF (&out)[kScaleVectors]) {
  const uint8x8_t bytes = vld1_u8(nibbles), low = vand_u8(bytes, vdup_n_u8(15)), high = vshr_n_u8(bytes, 4);
  const auto scale = [&](uint16x4_t n) HWY_ATTR {
    return vmulq_n_f32(vmulq_n_f32(vaddq_f32(vcvtq_f32_u32(vmovl_u16(n)), vdupq_n_f32(0.5f)), d), 0.25f);
  };
  const uint16x8_t first = vmovl_u8(vzip1_u8(low, high)), second = vmovl_u8(vzip2_u8(low, high));
  out[0].raw = scale(vget_low_u16(first));
  out[1].raw = scale(vget_high_u16(first));
  out[2].raw = scale(vget_low_u16(second));
  out[3].raw = scale(vget_high_u16(second));
}
// scale(i): of 32 weights, or with kEach = 16 of 16.
template <int kEach, typename Scale>
HWY_INLINE void set_scales(const Scale& scale, VF (&out)[kScaleVectors]) {
  float all[kChunk / 16];
  HWY_UNROLL(16)
  for (int i = 0; i < kChunk / 16; ++i) all[i] = scale(i * 16 / kEach);
  for (int i = 0; i < kScaleVectors; ++i) out[i].raw = vld1q_f32(all + 4 * i);
}

template <>
struct Unpacker<quant::IQ2_XXS> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ2_XXS* b, Chunk& out) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(b->qs); // per group: four indices, signs, scale
    const auto bits = [&](int g) HWY_ATTR { return load_as<uint32_t>(bytes + 8 * g + 4); };
    for (int g = 0; g < 8; ++g)
      set_points([&](int i) { return quant::kIq2XxsCodebook.point[bytes[8 * g + i]]; },
                 [&](int i) { return quant::eight_signs(bits(g) >> (7 * i)); }, out.code + 2 * g);
    const float d = float_of(b->d);
    set_scales<32>([&](int g) HWY_ATTR { return d * (0.5f + static_cast<float>(bits(g) >> 28)) * 0.25f; }, out.scale);
  }
};

template <>
struct Unpacker<quant::IQ2_XS> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ2_XS* b, Chunk& out) {
    for (int g = 0; g < 8; ++g)
      set_points([&](int i) { return quant::kIq2XsCodebook.point[b->qs[4 * g + i] & 511]; },
                 [&](int i) { return quant::eight_signs(b->qs[4 * g + i] >> 9); }, out.code + 2 * g);
    half_steps(b->scales, float_of(b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::IQ2_S> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ2_S* b, Chunk& out) {
    for (int g = 0; g < 8; ++g)
      set_points([&](int i) { return quant::kIq2SCodebook.point[b->qs[4 * g + i] | (b->qh[g] >> (2 * i) & 3) << 8]; },
                 [&](int i) { return b->signs[4 * g + i]; }, out.code + 2 * g);
    half_steps(b->scales, float_of(b->d), out.scale);
  }
};

template <>
struct Unpacker<quant::IQ3_XXS> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ3_XXS* b, Chunk& out) {
    const auto bits = [&](int g) HWY_ATTR { return load_as<uint32_t>(b->signs_scale + 2 * g); };
    for (int g = 0; g < 8; ++g) {
      const uint8_t* q = b->qs + 8 * g;
      set_points(
          [&](int i) {
            return quant::kIq3XxsCodebook.point[q[2 * i]] |
                   static_cast<uint64_t>(quant::kIq3XxsCodebook.point[q[2 * i + 1]]) << 32;
          },
          [&](int i) { return quant::eight_signs(bits(g) >> (7 * i)); }, out.code + 2 * g);
    }
    const float d = float_of(b->d);
    set_scales<32>([&](int g) HWY_ATTR { return d * (0.5f + static_cast<float>(bits(g) >> 28)) * 0.5f; }, out.scale);
  }
};

template <>
struct Unpacker<quant::IQ3_S> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ3_S* b, Chunk& out) {
    for (int g = 0; g < 8; ++g) {
      const auto point = [&](int n) -> uint64_t {
        return quant::kIq3SCodebook.point[b->qs[8 * g + n] | (b->qh[g] >> n & 1) << 8];
      };
      set_points([&](int i) { return point(2 * i) | point(2 * i + 1) << 32; },
                 [&](int i) { return b->signs[4 * g + i]; }, out.code + 2 * g);
    }
    const float d = float_of(b->d);
    set_scales<32>([&](int g)
                       HWY_ATTR { return d * static_cast<float>(2 * (b->scales[g / 2] >> (4 * (g % 2)) & 15) + 1); },
                   out.scale);
  }
};

// index(i) and shift(i), 1 or −1, of eight weights.
template <typename Index, typename Shift>
HWY_INLINE void set_shifted(const Index& index, const Shift& shift, VI* code) {
  for (int h = 0; h < 2; ++h) {
    const int8x16_t codes =
        two_points(quant::kIq1Codebook.point[index(2 * h)], quant::kIq1Codebook.point[index(2 * h + 1)]);
    const auto of = [&](int i) HWY_ATTR { return vdup_n_s8(static_cast<int8_t>(shift(i))); };
    code[h].raw = vreinterpretq_s32_s8(vaddq_s8(codes, vcombine_s8(of(2 * h), of(2 * h + 1))));
  }
}

template <>
struct Unpacker<quant::IQ1_S> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ1_S* b, Chunk& out) {
    for (int g = 0; g < 8; ++g)
      set_shifted([&](int i) { return b->qs[4 * g + i] | (b->qh[g] >> (3 * i) & 7) << 8; },
                  [&](int) { return b->qh[g] & 0x8000 ? -1 : 1; }, out.code + 2 * g);
    const float d = float_of(b->d);
    set_scales<32>([&](int g) HWY_ATTR { return d * static_cast<float>(2 * (b->qh[g] >> 12 & 7) + 1) * 0.125f; },
                   out.scale);
  }
};

template <>
struct Unpacker<quant::IQ1_M> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::IQ1_M* b, Chunk& out) {
    for (int g = 0; g < 8; ++g) {
      const auto nibble = [&](int i) { return b->qh[2 * g + i / 2] >> (4 * (i % 2)); };
      set_shifted([&](int i) { return b->qs[4 * g + i] | (nibble(i) & 7) << 8; },
                  [&](int i) { return nibble(i) & 8 ? -1 : 1; }, out.code + 2 * g);
    }
    const float d = b->d();
    set_scales<16>(
        [&](int s)
            HWY_ATTR { return d * static_cast<float>(2 * (b->scales[s / 4] >> (3 * (s % 4)) & 7) + 1) * 0.125f; },
        out.scale);
  }
};

template <>
struct Unpacker<quant::Q1_0> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q1_0* b, Chunk& out) {
    for (int v = 0; v < 16; ++v) {
      const uint8_t* bits = b[v / 8].qs + 2 * (v % 8);
      set_codes(vornq_u8(vdupq_n_u8(1), mask_of(bits[0], bits[1])), 0, out.code[v]); // 1 or −1
    }
    set_scales<32>([&](int g) HWY_ATTR { return float_of(b[g / 4].d); }, out.scale);
  }
};

template <>
struct Unpacker<quant::Q2_0> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::Q2_0* b, Chunk& out) {
    const int8x16_t shift = vreinterpretq_s8_u32(vdupq_n_u32(0xfafcfe00)); // right by 0, 2, 4, 6
    for (int v = 0; v < 16; ++v) {
      const uint32_t four = load_as<uint32_t>(b[v / 4].qs + 4 * (v % 4));
      const uint32_t lanes[4] = {four & 0xff, four >> 8 & 0xff, four >> 16 & 0xff, four >> 24};
      const uint32x4_t each = vmulq_n_u32(vld1q_u32(lanes), 0x01010101);
      set_codes(and_bytes(vshlq_u8(vreinterpretq_u8_u32(each), shift), 3), 1, out.code[v]);
    }
    set_scales<32>([&](int g) HWY_ATTR { return float_of(b[g / 2].d); }, out.scale);
  }
};

template <typename Block>
HWY_INLINE void unpack_nvfp4(const Block& block, Chunk& out) {
  for (int s = 0; s < 16; ++s) {
    const uint8x8_t bytes = vld1_u8(block(s / 4).qs + 8 * (s % 4));
    const uint8x16_t nibbles = vcombine_u8(vand_u8(bytes, vdup_n_u8(15)), vshr_n_u8(bytes, 4));
    out.code[s].raw = vreinterpretq_s32_s8(vqtbl1q_s8(e2m1_levels(), nibbles));
  }
}

template <>
struct Unpacker<quant::NVFP4> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::NVFP4* b, Chunk& out) {
    unpack_nvfp4([b](int j) HWY_ATTR -> const quant::NVFP4& { return b[j]; }, out);
    set_scales<16>([b](int s) HWY_ATTR { return quant::NVFP4::half_ue4m3(b[s / 4].d[s % 4]); }, out.scale);
  }
};

template <>
struct Unpacker<quant::NVFP4_SCALED> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::NVFP4_SCALED* b, Chunk& out) {
    unpack_nvfp4([b](int j) HWY_ATTR -> const quant::NVFP4& { return b[j].block; }, out);
    set_scales<16>([b](int s) HWY_ATTR { return b[s / 4].m * quant::NVFP4::half_ue4m3(b[s / 4].block.d[s % 4]); },
                   out.scale);
  }
};

template <>
struct Unpacker<quant::AFFINE4> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::AFFINE4* b, Chunk& out) {
    for (int g = 0; g < 8; ++g) {
      const quant::AFFINE4& block = b[g / 2];
      const uint8x16_t bytes = load16_bytes(block.qs + 16 * (g % 2));
      const auto zero = static_cast<int8_t>(block.zero(g % 2));
      set_codes(low_nibbles(bytes), zero, out.code[2 * g]);
      set_codes(high_nibbles(bytes), zero, out.code[2 * g + 1]);
    }
    set_scales<32>([&](int g) HWY_ATTR { return float_of(b[g / 2].d[g % 2]); }, out.scale);
  }
};

template <>
struct Unpacker<quant::AFFINE8> {
  static constexpr int kBias = 0;
  static HWY_INLINE void unpack(const quant::AFFINE8* b, Chunk& out) {
    for (int v = 0; v < 16; ++v) out.code[v].raw = vreinterpretq_s32_s8(vld1q_s8(b[v / 2].qs + 16 * (v % 2)));
    set_scales<32>([&](int g) HWY_ATTR { return float{b[g].d}; }, out.scale);
    set_scales<32>([&](int g) HWY_ATTR { return float{b[g].m}; }, out.offset);
  }
};

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif // RIDGE_NEON

#endif
