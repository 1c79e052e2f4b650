// Rows of KV caches: loads and stores. Included once per instruction set.
#if defined(RIDGE_CPU_CACHE_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_CACHE_ROWS_INL_H
#undef RIDGE_CPU_CACHE_ROWS_INL_H
#else
#define RIDGE_CPU_CACHE_ROWS_INL_H
#endif

#include "core/half.h"
#include "core/host_device/kv_rotation.h"
#include "kernels/cpu/formats/simd-inl.h"
#include "quant/cache_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

// Kernels read these types directly; others are unpacked to f32 a tile at a time.
constexpr core::KvType kF16 = core::KvType::f16, kF32 = core::KvType::f32, kQ8 = core::KvType::q8_0;

HWY_INLINE VF load_code(const int8_t* p) {
  const hn::Rebind<int8_t, FloatTag> bytes;
  return hn::ConvertTo(kF, hn::PromoteTo(kI, hn::LoadU(bytes, p)));
}

template <core::KvType kType>
struct Keys {
  const float* p;
  Keys(const std::byte* keys, int64_t position, int64_t k_dim)
      : p(reinterpret_cast<const float*>(keys) + position / kKeyBlock * kKeyBlock * k_dim + position % kKeyBlock) {}
  HWY_INLINE VF load(int64_t d) const { return load_float(p + d * kKeyBlock); }
};
template <>
struct Keys<core::KvType::f16> {
  const uint16_t* p;
  Keys(const std::byte* keys, int64_t position, int64_t k_dim)
      : p(reinterpret_cast<const uint16_t*>(keys) + position / kKeyBlock * kKeyBlock * k_dim + position % kKeyBlock) {}
  HWY_INLINE VF load(int64_t d) const { return load_half(p + d * kKeyBlock); }
};
template <>
struct Keys<core::KvType::q8_0> {
  const int8_t* codes;
  const uint16_t* scales;
  Keys(const std::byte* keys, int64_t position, int64_t k_dim) {
    const std::byte* block = keys + position / kKeyBlock * kKeyBlock * core::head_bytes(core::KvType::q8_0, k_dim);
    codes = reinterpret_cast<const int8_t*>(block) + position % kKeyBlock;
    scales = reinterpret_cast<const uint16_t*>(block + kKeyBlock * k_dim) + position % kKeyBlock;
  }
  HWY_INLINE VF load(int64_t d) const {
    return hn::Mul(load_code(codes + d * kKeyBlock), load_half(scales + d / core::kKvBlock * kKeyBlock));
  }
};

template <core::KvType kType>
struct Values {
  const float* p;
  int64_t stride;
  Values(const std::byte* values, int64_t first, int64_t stride)
      : p(reinterpret_cast<const float*>(values) + first * stride), stride(stride) {}
  HWY_INLINE VF load(int64_t position, int64_t d) const { return load_float(p + position * stride + d); }
};
template <>
struct Values<core::KvType::f16> {
  const uint16_t* p;
  int64_t stride;
  Values(const std::byte* values, int64_t first, int64_t stride)
      : p(reinterpret_cast<const uint16_t*>(values) + first * stride), stride(stride) {}
  HWY_INLINE VF load(int64_t position, int64_t d) const { return load_half(p + position * stride + d); }
};
template <>
struct Values<core::KvType::q8_0> {
  const std::byte* p;
  int64_t dim, row_bytes;
  Values(const std::byte* values, int64_t first, int64_t dim)
      : dim(dim), row_bytes(core::head_bytes(core::KvType::q8_0, dim)) {
    p = values + first * row_bytes;
  }
  HWY_INLINE VF load(int64_t position, int64_t d) const {
    const std::byte* row = p + position * row_bytes;
    uint16_t scale;
    std::memcpy(&scale, row + dim + d / core::kKvBlock * 2, 2);
    const hn::Rebind<uint16_t, FloatTag> bits;
    const hn::Rebind<hwy::float16_t, FloatTag> half;
    return hn::Mul(load_code(reinterpret_cast<const int8_t*>(row) + d),
                   hn::PromoteTo(kF, hn::BitCast(half, hn::Set(bits, scale))));
  }
};

// Where the parts of 16 keys or of a row of values lie, for heads of `dim`: codes, fifth bits, scales, minima.
struct CacheParts {
  int64_t fifth_bits, scales, minima;
  int bits;
  bool has_minima;
  CacheParts(core::KvType type, int64_t dim, int64_t positions) {
    const core::KvFormat& format = core::format_of(type);
    bits = format.bits;
    has_minima = format.halves > 1;
    fifth_bits = dim / 2 * positions;
    scales = dim * bits / 8 * positions;
    minima = scales + dim / core::kKvBlock * 2 * positions;
  }
};

// Levels of 4 and 5 bits, less the type's zero.
HWY_INLINE VF level_of(core::KvType type, VI code) {
  using enum core::KvType;
  if (type == iq4_nl) {
    HWY_ALIGN static constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
    return look_up(kLevels, code, hn::Set(kF, 1.0f));
  }
  return hn::ConvertTo(kF, hn::Sub(code, hn::Set(kI, type == q4_0 ? 8 : type == q5_0 ? 16 : 0)));
}
HWY_INLINE VI load_bytes(const std::byte* p) {
  const hn::Rebind<uint8_t, FloatTag> byte;
  return hn::PromoteTo(kI, hn::LoadU(byte, reinterpret_cast<const uint8_t*>(p)));
}
HWY_INLINE VF set_half(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return hn::Set(kF, core::f32_from_f16(bits));
}

// Keys of 16 positions to f32, [dim][16].
void unpack_keys(const std::byte* block, int64_t dim, core::KvType type, float* out) {
  if (type == core::KvType::bf16) {
    for (int64_t i = 0; i < dim * kKeyBlock; i += kLanes)
      hn::StoreU(load_bfloat(reinterpret_cast<const uint16_t*>(block) + i), kF, out + i);
    return;
  }
  const CacheParts parts(type, dim, kKeyBlock);
  for (int64_t b = 0; b < dim / core::kKvBlock; ++b, out += core::kKvBlock * kKeyBlock)
    for (int64_t p = 0; p < kKeyBlock; p += kLanes) {
      const auto halves = [&](int64_t at) {
        return load_half(reinterpret_cast<const uint16_t*>(block + at) + b * kKeyBlock + p);
      };
      const VF scale = halves(parts.scales), least = parts.has_minima ? halves(parts.minima) : hn::Zero(kF);
      const auto put = [&](int64_t i, VI code) HWY_ATTR {
        if (parts.bits == 5) {
          const VI fifth = load_bytes(block + parts.fifth_bits + (4 * b + i / 8) * kKeyBlock + p);
          code = hn::Or(
              code, hn::And(hn::ShiftLeftSame(hn::ShiftRightSame(fifth, static_cast<int>(i % 8)), 4), hn::Set(kI, 16)));
        }
        hn::StoreU(hn::MulAdd(level_of(type, code), scale, least), kF, out + i * kKeyBlock + p);
      };
      for (int64_t i = 0; i < core::kKvBlock / 2; ++i) {
        const VI pair = load_bytes(block + (core::kKvBlock / 2 * b + i) * kKeyBlock + p);
        put(i, hn::And(pair, hn::Set(kI, 15)));
        put(i + core::kKvBlock / 2, hn::ShiftRight<4>(pair));
      }
    }
}

// A row of values to f32; `dim`: a multiple of 16.
void unpack_values(const std::byte* row, int64_t dim, core::KvType type, float* out) {
  if (type == core::KvType::bf16) {
    for (int64_t i = 0; i < dim; i += kLanes)
      hn::StoreU(load_bfloat(reinterpret_cast<const uint16_t*>(row) + i), kF, out + i);
    return;
  }
  const CacheParts parts(type, dim, 1);
  for (int64_t b = 0; b < dim / core::kKvBlock; ++b, out += core::kKvBlock) {
    const VF scale = set_half(row + parts.scales + 2 * b),
             least = parts.has_minima ? set_half(row + parts.minima + 2 * b) : hn::Zero(kF);
    uint32_t fifth_bits = 0;
    if (parts.bits == 5) std::memcpy(&fifth_bits, row + parts.fifth_bits + 4 * b, 4);
    for (int64_t i = 0; i < core::kKvBlock; i += kLanes) {
      const VI pairs = load_bytes(row + core::kKvBlock / 2 * b + i % (core::kKvBlock / 2));
      VI code = i < core::kKvBlock / 2 ? hn::And(pairs, hn::Set(kI, 15)) : hn::ShiftRight<4>(pairs);
      if (parts.bits == 5) {
        const VI bits = hn::Shr(hn::Set(kI, static_cast<int32_t>(fifth_bits >> i)), hn::Iota(kI, 0));
        code = hn::Or(code, hn::ShiftLeft<4>(hn::And(bits, hn::Set(kI, 1))));
      }
      hn::StoreU(hn::MulAdd(level_of(type, code), scale, least), kF, out + i);
    }
  }
}

// Stores a head at parts[i * stride + place] of each part, for a key among 16 positions or a row of values.
void store_codes(const float* head, int64_t dim, core::KvType type, std::byte* to, int64_t stride, int64_t place) {
  const CacheParts parts(type, dim, stride);
  for (int64_t b = 0; b < dim / core::kKvBlock; ++b) {
    float x[core::kKvBlock], smallest = std::numeric_limits<float>::infinity(), largest = -smallest;
    std::copy_n(head + b * core::kKvBlock, core::kKvBlock, x);
    if (core::is_rotated(type)) core::rotate_blocks(x, core::kKvBlock);
    for (const float e : x) {
      smallest = std::min(smallest, e == e ? e : -std::numeric_limits<float>::infinity());
      largest = std::max(largest, e == e ? e : std::numeric_limits<float>::infinity());
    }
    const quant::CacheCode code(type, smallest, largest);
    const auto put = [&](int64_t at, int64_t i, int byte) {
      to[at + i * stride + place] = static_cast<std::byte>(byte);
    };
    const auto put_half = [&](int64_t at, uint16_t half) { std::memcpy(to + at + (b * stride + place) * 2, &half, 2); };
    put_half(parts.scales, code.scale);
    if (parts.has_minima) put_half(parts.minima, code.minimum);
    if (type == kQ8) {
      for (int64_t i = 0; i < core::kKvBlock; ++i) put(0, b * core::kKvBlock + i, code(x[i]));
      continue;
    }
    uint32_t fifth_bits = 0;
    for (int64_t i = 0; i < core::kKvBlock / 2; ++i) {
      const int low = code(x[i]), high = code(x[i + core::kKvBlock / 2]);
      put(0, b * core::kKvBlock / 2 + i, (low & 15) | (high & 15) << 4);
      fifth_bits |= static_cast<uint32_t>(low >> 4) << i | static_cast<uint32_t>(high >> 4) << (i + core::kKvBlock / 2);
    }
    if (parts.bits == 5)
      for (int64_t i = 0; i < 4; ++i) put(parts.fifth_bits, 4 * b + i, static_cast<int>(fifth_bits >> 8 * i & 255));
  }
}

// Elements at to[i * stride].
void store_floats(const float* x, int64_t dim, core::KvType type, std::byte* to, int64_t stride) {
  if (type == kF32)
    for (int64_t d = 0; d < dim; ++d) reinterpret_cast<float*>(to)[d * stride] = x[d];
  else if (type == kF16)
    for (int64_t d = 0; d < dim; ++d) reinterpret_cast<uint16_t*>(to)[d * stride] = core::f16_from_f32(x[d]);
  else
    for (int64_t d = 0; d < dim; ++d) reinterpret_cast<uint16_t*>(to)[d * stride] = core::bf16_from_f32(x[d]);
}

void store_key(const float* key, int64_t k_dim, int64_t position, core::KvType type, std::byte* blocks) {
  std::byte* block = blocks + position / kKeyBlock * kKeyBlock * core::head_bytes(type, k_dim);
  if (core::has_blocks(type))
    store_codes(key, k_dim, type, block, kKeyBlock, position % kKeyBlock);
  else
    store_floats(key, k_dim, type, block + position % kKeyBlock * core::head_bytes(type, 1), kKeyBlock);
}

void store_value(const float* value, int64_t v_dim, int64_t position, core::KvType type, std::byte* rows) {
  std::byte* row = rows + position * core::head_bytes(type, round_up(v_dim, 16));
  if (core::has_blocks(type))
    store_codes(value, v_dim, type, row, 1, 0);
  else
    store_floats(value, v_dim, type, row, 1);
}

template <typename Element>
void copy_elements(const std::byte* from, int64_t position, std::byte* to, int64_t at, int64_t count) {
  for (int64_t d = 0; d < count; ++d)
    std::memcpy(to + (d * kKeyBlock + at % kKeyBlock) * sizeof(Element),
                from + (d * kKeyBlock + position % kKeyBlock) * sizeof(Element), sizeof(Element));
}

void copy_key(const std::byte* from, int64_t position, std::byte* to, int64_t at, int64_t k_dim, core::KvType type) {
  const int64_t block_bytes = kKeyBlock * core::head_bytes(type, k_dim);
  from += position / kKeyBlock * block_bytes;
  to += at / kKeyBlock * block_bytes;
  const core::KvFormat& format = core::format_of(type);
  if (core::has_blocks(type)) {
    const int64_t scales = k_dim * format.bits / 8;
    copy_elements<uint8_t>(from, position, to, at, scales);
    copy_elements<uint16_t>(from + scales * kKeyBlock, position, to + scales * kKeyBlock, at,
                            k_dim / core::kKvBlock * format.halves);
  } else if (format.bits == 16) {
    copy_elements<uint16_t>(from, position, to, at, k_dim);
  } else {
    copy_elements<float>(from, position, to, at, k_dim);
  }
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
