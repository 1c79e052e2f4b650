// Fetches URLs from requests, over public internet addresses only.
#pragma once

#include <cstdint>
#include <string>

struct sockaddr;

namespace ridge::hub {

// Returns false for private, loopback, link-local, reserved and multicast addresses, and for IPv6 addresses that embed
// IPv4.
bool is_public_address(const sockaddr& address);

struct FetchLimits {
  int64_t bytes = 0;
  double seconds = 0;
  bool (*may_connect)(const sockaddr& address) = is_public_address; // checked for each connection
};

// Returns the file at a URL. Uses no proxy, because a proxy would connect instead. Throws Error with a message that
// does not start with the URL.
std::string fetch_public(const std::string& url, const FetchLimits& limits);

} // namespace ridge::hub
