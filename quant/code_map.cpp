#include "quant/code_map.h"

#include "quant/all_formats.h"
#include "quant/formats/group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>

namespace ridge::quant {
namespace {

template <typename Format>
void unpack_block(const std::byte* bytes, int8_t* codes, Scales* scales) {
  Format block;
  std::memcpy(&block, bytes, sizeof block);
  for (int g = 0; g < Format::kWeights / kGroupWeights; ++g) {
    Group group;
    block.unpack(g, group);
    std::copy_n(group.code, kGroupWeights, codes + g * kGroupWeights);
    for (int half = 0; half < 2; ++half) scales[2 * g + half] = {group.scale[half], group.offset[half]};
  }
}

constexpr int kMaxWeights = 256;

} // namespace

bool CodeMap::find(Type type, Unpack unpack, CodeMap& map) {
  const FormatInfo& info = format(type);
  const auto weights = static_cast<size_t>(info.block_weights), bytes = static_cast<size_t>(info.block_bytes);
  map.unpack_ = unpack;
  map.block_weights_ = info.block_weights;

  // Some bits act only beside others (the sign of a zero): try several blocks.
  std::vector<std::vector<std::byte>> blocks(8, std::vector<std::byte>(bytes));
  std::mt19937 random(1);
  for (size_t i = 1; i < blocks.size(); ++i)
    for (std::byte& byte : blocks[i]) byte = static_cast<std::byte>(random());
  std::array<int8_t, kMaxWeights> before, after;
  std::array<Scales, kMaxWeights / 16> scales;
  std::vector<std::vector<std::pair<int, Bit>>> bits_of(weights);
  for (size_t at = 0; at < 8 * bytes; ++at) {
    const Bit bit = {static_cast<uint16_t>(at / 8), static_cast<uint8_t>(1u << (at % 8))};
    int owner = -1, change = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      std::vector<std::byte> block = blocks[b];
      unpack(block.data(), before.data(), scales.data());
      block[bit.byte] ^= std::byte{bit.mask};
      unpack(block.data(), after.data(), scales.data());
      for (size_t w = 0; w < weights; ++w) {
        if (before[w] == after[w]) continue;
        if (owner >= 0 && owner != static_cast<int>(w)) return false;
        owner = static_cast<int>(w);
        if (b == 0) change = after[w] - before[w];
      }
    }
    if (owner >= 0) bits_of[static_cast<size_t>(owner)].emplace_back(change, bit);
  }

  map.bits_ = static_cast<int>(bits_of[0].size());
  if (map.bits_ == 0) return false;
  for (size_t w = 0; w < weights; ++w) {
    auto& bits = bits_of[w];
    if (static_cast<int>(bits.size()) != map.bits_) return false;
    std::ranges::stable_sort(bits, {}, &std::pair<int, Bit>::first);
    for (const auto& [change, bit] : bits) map.places_.push_back(bit);
  }
  // Scale words hold no code bits: zero blocks suffice.
  for (size_t w = 0; w < weights; ++w)
    for (int pattern = 0; pattern < 1 << map.bits_; ++pattern) {
      std::vector<std::byte> block(bytes);
      map.set(block.data(), static_cast<int64_t>(w), pattern);
      unpack(block.data(), after.data(), scales.data());
      if (w == 0) map.levels_.push_back(after[0]);
      if (after[w] != map.levels_[static_cast<size_t>(pattern)]) return false;
    }

  for (int pattern = 0; pattern < 1 << map.bits_; ++pattern) {
    const int8_t level = map.levels_[static_cast<size_t>(pattern)];
    const bool known =
        std::ranges::any_of(map.sorted_, [&](int p) { return map.levels_[static_cast<size_t>(p)] == level; });
    if (!known && level != -128) map.sorted_.push_back(pattern); // -128: see quant/formats/group.h
  }
  std::ranges::sort(map.sorted_, {}, [&](int p) { return map.levels_[static_cast<size_t>(p)]; });
  for (size_t i = 1; i < map.sorted_.size(); ++i)
    map.midpoints_.push_back(0.5f * (map.level(map.sorted_[i - 1]) + map.level(map.sorted_[i])));
  return true;
}

const CodeMap* CodeMap::of(Type type) {
  static const std::map<Type, CodeMap> kMaps = [] {
    std::map<Type, CodeMap> maps;
    const auto add = [&]<typename Format>(Type t, const Format*) {
      if constexpr (PackedFormat<Format>) {
        CodeMap map;
        if (format(t).stored() && find(t, &unpack_block<Format>, map)) maps.emplace(t, std::move(map));
      }
    };
#define RIDGE_FORMAT(name, id, weights, bytes) add(Type::name, static_cast<const name*>(nullptr));
#include "quant/formats.def"
#undef RIDGE_FORMAT
    return maps;
  }();
  const auto found = kMaps.find(type);
  return found == kMaps.end() ? nullptr : &found->second;
}

void CodeMap::scales(const std::byte* block, Scales* out) const {
  std::array<int8_t, kMaxWeights> codes;
  unpack_(block, codes.data(), out);
}

int CodeMap::nearest(float level) const {
  return sorted_[static_cast<size_t>(std::ranges::lower_bound(midpoints_, level) - midpoints_.begin())];
}

void CodeMap::set(std::byte* block, int64_t weight, int pattern) const {
  const Bit* bit = places_.data() + weight * bits_;
  for (int i = 0; i < bits_; ++i, ++bit) {
    const std::byte mask{bit->mask};
    block[bit->byte] = (pattern >> i & 1) != 0 ? block[bit->byte] | mask : block[bit->byte] & ~mask;
  }
}

} // namespace ridge::quant
