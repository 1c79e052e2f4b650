// The secret that ranks in several processes share, and the proofs by which they show that they know it. The secret
// itself is never sent.
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

Challenge random_challenge(); // of the kernel's random numbers

// HMAC-SHA-256 (RFC 2104) of all parts, one behind the other.
Mac hmac_sha256(std::string_view key, std::initializer_list<std::span<const std::byte>> parts);

// Takes the same time wherever they differ.
bool same(const Mac& a, const Mac& b);

// RIDGE_RANK_SECRET, or the text of the file RIDGE_RANK_SECRET_FILE without space around it. Where neither is set and
// all ranks are on this machine (`one_host`): that of ~/.cache/ridge/rank-secret, which is made where it is missing,
// and which only this user can read. Throws Error where there is none, or where it is shorter than 16 characters.
std::string find_rank_secret(bool one_host);

} // namespace ridge::core
