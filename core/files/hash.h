// A 64-bit hash that tells whether bytes are those of before: fast, the same on every machine of this byte order, and
// no protection against somebody who wants two inputs to look alike.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace ridge::core {

class Hash {
 public:
  // Pieces count: add("ab") is not add("a"), add("b").
  Hash& add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
      uint64_t word;
      std::memcpy(&word, bytes.data(), sizeof word);
      mix(word);
    }
    uint64_t rest = 0;
    if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
    mix(rest);
    return *this;
  }
  Hash& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Hash& add(uint64_t value) {
    mix(value);
    return *this;
  }
  uint64_t value() const { return state_; }

 private:
  void mix(uint64_t word) { // FNV-1a over words; the rotation lets high bits reach low ones
    state_ = std::rotl((state_ ^ word) * 0x100000001b3, 29) * 0x9e3779b97f4a7c15;
  }

  uint64_t state_ = 0xcbf29ce484222325;
};

} // namespace ridge::core
