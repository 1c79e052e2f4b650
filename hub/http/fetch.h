// Fetches files from addresses that came in a request. Connections go to the public internet only, whatever a name
// resolves to and wherever redirects lead.
#pragma once

#include <cstdint>
#include <string>

struct sockaddr;

namespace ridge::hub {

// Whether an address is one of the public internet: not of this machine, a private network, a link, a test, a group.
// Addresses of IPv6 that stand for one of IPv4 are not, either.
bool is_public_address(const sockaddr& address);

struct FetchLimits {
  int64_t bytes = 0;
  double seconds = 0;                                               // with redirects
  bool (*may_connect)(const sockaddr& address) = is_public_address; // asked for the very address of each connection
};

// The file at an http:// or https:// address. No proxy is used, because it would connect in place of this machine.
// Throws Error in one line that does not begin with the address.
std::string fetch_public(const std::string& url, const FetchLimits& limits);

} // namespace ridge::hub
