#include "quant/feedback/block_codes.h"

#include "quant/all_formats.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

namespace ridge::quant {
namespace {

template <typename Format>
void pack_parts(const Parts& parts, std::byte* out) {
  Format block;
  block.pack(parts);
  std::memcpy(out, &block, sizeof block);
}

template <typename Format>
concept Packable = PackedFormat<Format> && requires(Format& block, const Parts& parts) {
  block.pack(parts);
};

float nearest_f16(float value) { return core::f32_from_f16(core::f16_from_f32(value)); }

float next_scale(Type type, float scale, int direction) {
  if (type == Type::MXFP4) return std::clamp(direction > 0 ? 2 * scale : 0.5f * scale, 0x1p-126f, 0x1p124f);
  // Half an E4M3: consecutive numbers from 1 to 126, see quant/formats/nvfp4.h.
  const auto bits = static_cast<int>(std::bit_cast<uint32_t>(scale * 0x1p-119f) >> 20);
  return std::bit_cast<float>(static_cast<uint32_t>(std::clamp(bits + direction, 1, 126)) << 20) * 0x1p119f;
}

void set_factors(Type type, BlockCodes& codes) {
  const auto integers = [&](float lowest, float most, bool min) {
    codes.factors = BlockCodes::Factors::integers;
    codes.lowest = lowest, codes.most = most, codes.has_offset = min;
  };
  switch (type) {
  case Type::Q4_1:
  case Type::Q5_1: codes.has_offset = true; break;
  case Type::Q2_K: integers(0, 15, true); break;
  case Type::Q4_K:
  case Type::Q5_K: integers(0, 63, true); break;
  case Type::Q3_K:
  case Type::IQ4_XS: integers(-32, 31, false); break;
  case Type::Q6_K: integers(-128, 127, false); break;
  case Type::MXFP4:
  case Type::NVFP4: codes.factors = BlockCodes::Factors::floats; break;
  default: break;
  }
}

} // namespace

const BlockCodes* BlockCodes::of(Type type) {
  static const std::map<Type, BlockCodes> kCodes = [] {
    std::map<Type, BlockCodes> all;
    const auto add = [&]<typename Format>(Type t, const Format*) {
      if constexpr (Packable<Format>) {
        BlockCodes codes;
        codes.search = find_codebook_search(t);
        if (codes.search)
          codes.factors = Factors::points;
        else
          codes.search = find_plain_search(t);
        if (!codes.search) return;
        codes.block = Format::kWeights;
        codes.group = Format::kScaleWeights;
        codes.pack = &pack_parts<Format>;
        set_factors(t, codes);
        if (codes.factors == Factors::block) codes.group = codes.block;
        if (const CodeMap* map = CodeMap::of(t)) {
          for (const int pattern : map->sorted()) codes.levels.push_back(map->level(pattern));
        } else if (codes.factors != Factors::points) { // base-3 digits
          codes.levels = {-1, 0, 1};
        }
        for (size_t i = 1; i < codes.levels.size(); ++i)
          codes.midpoints.push_back(0.5f * (codes.levels[i - 1] + codes.levels[i]));
        codes.consecutive = !codes.levels.empty() &&
                            codes.levels.back() - codes.levels[0] == static_cast<float>(codes.levels.size() - 1);
        all.emplace(t, std::move(codes));
      }
    };
#define RIDGE_FORMAT(name, id, weights, bytes) add(Type::name, static_cast<const name*>(nullptr));
#include "quant/formats.def"
#undef RIDGE_FORMAT
    for (auto& [t, codes] : all) codes.type_ = t;
    return all;
  }();
  const auto found = kCodes.find(type);
  return found == kCodes.end() ? nullptr : &found->second;
}

Scales BlockCodes::scales(const Parts& parts, int g) const {
  switch (factors) {
  case Factors::integers: return {parts.d * parts.scale[g], has_offset ? -(parts.m * parts.min[g]) : 0.0f};
  case Factors::floats: return {parts.scale[g], 0.0f};
  default: return {parts.d, has_offset ? parts.m : 0.0f};
  }
}

bool BlockCodes::neighbour(Parts& parts, int g, int n) const {
  const bool second = n >= 2;
  const float direction = n % 2 == 0 ? 1.0f : -1.0f;
  switch (factors) {
  case Factors::integers: {
    if (second && !has_offset) return false;
    float& factor = (second ? parts.min : parts.scale)[g];
    const float before = factor;
    factor = std::clamp(factor + direction, lowest, most);
    return factor != before;
  }
  case Factors::floats: {
    const float before = parts.scale[g];
    if (!second) parts.scale[g] = next_scale(type_, before, n == 0 ? 1 : -1);
    return parts.scale[g] != before;
  }
  case Factors::block: {
    // About the first level or, with an offset, the last.
    if (second && !has_offset) return false;
    const float before = parts.d;
    parts.d = nearest_f16(before * (1 + direction / 32));
    if (second) parts.m = nearest_f16(parts.m + (before - parts.d) * levels.back());
    return parts.d != before;
  }
  default: return false;
  }
}

} // namespace ridge::quant
