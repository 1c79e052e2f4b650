// Incremental SHA-256; core/files/hash.h is faster.
#pragma once

#include <sha2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ridge::core {

class Sha256 {
 public:
  static constexpr size_t kBlockBytes = SHA256_BLOCK_LENGTH;
  using Digest = std::array<std::byte, SHA256_DIGEST_LENGTH>;

  Sha256() { ::SHA256Init(&state_); }
  Sha256& add(std::span<const std::byte> bytes) {
    ::SHA256Update(&state_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    return *this;
  }
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

  // digest() and hex() end the computation.
  Digest digest() {
    Digest digest;
    ::SHA256Final(reinterpret_cast<uint8_t*>(digest.data()), &state_);
    return digest;
  }
  std::string hex() { // lower case
    char digits[SHA256_DIGEST_STRING_LENGTH];
    return ::SHA256End(&state_, digits);
  }

 private:
  SHA2_CTX state_;
};

} // namespace ridge::core
