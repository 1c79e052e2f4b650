// A fast 64-bit hash that detects damage, not forgery. Depends on the byte order.
#pragma once

#include "core/random.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace ridge::core {

class Hash {
 public:
  // Boundaries matter: adding "ab" differs from adding "a", then "b".
  Hash& add(std::span<const std::byte> bytes) {
    mix(0, bytes.size());
    for (; bytes.size() >= kStep; bytes = bytes.subspan(kStep))
      for (size_t lane = 0; lane < kLanes; ++lane) mix(lane, word_at(bytes.subspan(lane * kWord, kWord)));
    for (size_t lane = 0; !bytes.empty(); ++lane) {
      const auto word = bytes.first(std::min(kWord, bytes.size()));
      mix(lane, word_at(word));
      bytes = bytes.subspan(word.size());
    }
    return *this;
  }
  Hash& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Hash& add(uint64_t value) {
    mix(0, value);
    return *this;
  }
  uint64_t value() const {
    uint64_t sum = 0;
    for (const uint64_t lane : lanes_) sum = mix_bits(sum ^ lane);
    return sum;
  }

 private:
  static constexpr size_t kLanes = 4, kWord = sizeof(uint64_t), kStep = kLanes * kWord; // independent lanes

  static uint64_t word_at(std::span<const std::byte> bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    return word;
  }
  void mix(size_t lane, uint64_t word) {
    lanes_[lane] = (lanes_[lane] ^ word) * 0x9e3779b97f4a7c15;
    lanes_[lane] ^= lanes_[lane] >> 29;
  }

  std::array<uint64_t, kLanes> lanes_ = {1, 2, 3, 4};
};

} // namespace ridge::core
