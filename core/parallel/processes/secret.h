// The shared secret of ranks. Proofs show that a rank knows it; it is never sent.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ridge::core {

using Challenge = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

Challenge random_challenge(); // from the kernel

// RFC 2104, of the concatenated parts.
Mac hmac_sha256(std::string_view key, std::initializer_list<std::span<const std::byte>> parts);

// Takes constant time.
bool same(const Mac& a, const Mac& b);

// Returns RIDGE_RANK_SECRET, or the trimmed text of RIDGE_RANK_SECRET_FILE. If neither is set and `one_host`, returns
// ~/.cache/ridge/rank-secret, created readable by this user only. Throws Error if missing or below 16 characters.
std::string find_rank_secret(bool one_host);

} // namespace ridge::core
