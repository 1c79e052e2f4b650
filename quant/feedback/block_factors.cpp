#include "quant/feedback/block_factors.h"

#include "quant/all_formats.h"

#include <cstring>
#include <map>
#include <type_traits>

namespace ridge::quant {
namespace {

template <typename Format>
concept HasScale = PackedFormat<Format> && requires(Format& block) {
  requires std::is_same_v<decltype(block.d), Half>;
};
template <typename Format>
concept HasMin = requires(Format& block) {
  block.dmin.bits;
};
template <typename Format>
concept HasOffset = requires(Format& block) {
  block.m.bits;
};

template <typename Format>
Half* offset_of(Format& block) {
  if constexpr (HasMin<Format>)
    return &block.dmin;
  else if constexpr (HasOffset<Format>)
    return &block.m;
  else
    return nullptr;
}

template <typename Format>
BlockFactors get(const std::byte* bytes) {
  Format block;
  std::memcpy(&block, bytes, sizeof block);
  const Half* offset = offset_of(block);
  return {block.d, offset ? static_cast<float>(*offset) : 1.0f};
}

template <typename Format>
void set(std::byte* bytes, const BlockFactors& factors) {
  Format block;
  std::memcpy(&block, bytes, sizeof block);
  block.d.bits = core::f16_from_f32(factors.scale);
  if (Half* offset = offset_of(block)) offset->bits = core::f16_from_f32(factors.offset);
  std::memcpy(bytes, &block, sizeof block);
}

} // namespace

const BlockFactors::Access* BlockFactors::of(Type type) {
  static const std::map<Type, Access> kAll = [] {
    std::map<Type, Access> all;
    const auto add = [&]<typename Format>(Type t, const Format*) {
      if constexpr (HasScale<Format>) all[t] = {HasMin<Format> || HasOffset<Format>, &get<Format>, &set<Format>};
    };
#define RIDGE_FORMAT(name, id, weights, bytes) add(Type::name, static_cast<const name*>(nullptr));
#include "quant/formats.def"
#undef RIDGE_FORMAT
    return all;
  }();
  const auto found = kAll.find(type);
  return found == kAll.end() ? nullptr : &found->second;
}

} // namespace ridge::quant
