#include "hub/http/fetch.h"

#include "core/error.h"
#include "hub/http/http.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstring>

namespace ridge::hub {
namespace {

// IPv4 networks outside the public internet (IANA special-purpose registry).
struct Network {
  uint32_t first;
  int bits;
};
constexpr uint32_t number(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return a << 24 | b << 16 | c << 8 | d; }
constexpr Network kNotPublic[] = {
    {number(0, 0, 0, 0), 8},       // this network
    {number(10, 0, 0, 0), 8},      // private
    {number(100, 64, 0, 0), 10},   // carrier-grade NAT
    {number(127, 0, 0, 0), 8},     // loopback
    {number(169, 254, 0, 0), 16},  // link-local, cloud metadata
    {number(172, 16, 0, 0), 12},   // private
    {number(192, 0, 0, 0), 24},    // protocol assignments
    {number(192, 0, 2, 0), 24},    // documentation
    {number(192, 88, 99, 0), 24},  // 6to4 relays
    {number(192, 168, 0, 0), 16},  // private
    {number(198, 18, 0, 0), 15},   // benchmarks
    {number(198, 51, 100, 0), 24}, // documentation
    {number(203, 0, 113, 0), 24},  // documentation
    {number(224, 0, 0, 0), 4},     // multicast
    {number(240, 0, 0, 0), 4},     // reserved
};

bool is_public(const in_addr& address) {
  const uint32_t value = ntohl(address.s_addr);
  for (const Network& network : kNotPublic)
    if ((value ^ network.first) >> (32 - network.bits) == 0) return false;
  return true;
}

// Only 2000::/3 is public; in it, 2001::/23 is for protocols, 2001:db8::/32 and 3fff::/20 are for documentation, and
// 2002::/16 embeds IPv4 addresses.
bool is_public(const in6_addr& address) {
  const auto word = [&](int i) {
    return static_cast<uint32_t>(address.s6_addr[2 * i] << 8 | address.s6_addr[2 * i + 1]);
  };
  if (word(0) >> 13 != 1) return false;
  if (word(0) == 0x2001 && (word(1) < 0x200 || word(1) == 0xdb8)) return false;
  return word(0) != 0x2002 && !(word(0) == 0x3fff && word(1) < 0x1000);
}

} // namespace

bool is_public_address(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    return is_public(v4.sin_addr);
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof v6);
  return is_public(v6.sin6_addr);
}

std::string fetch_public(const std::string& url, const FetchLimits& limits) {
  RequestPolicy policy;
  policy.may_connect = limits.may_connect;
  policy.seconds = limits.seconds;
  Connection connection(policy);
  std::string file;
  bool too_long = false;
  int status = 0;
  const Failure failure = connection.ask(
      {url},
      [&](const Head& head) {
        status = head.status;
        int64_t length = 0;
        const std::string said = head.header("content-length");
        std::from_chars(said.data(), said.data() + said.size(), length);
        too_long = length > limits.bytes;
        return status == 200 && !too_long;
      },
      [&](std::span<const char> bytes) {
        too_long = std::ssize(file) + std::ssize(bytes) > limits.bytes;
        if (!too_long) file.append(bytes.data(), bytes.size());
        return !too_long;
      });
  if (!failure.reason.empty()) throw_error("cannot be fetched: {}", failure.reason);
  if (status != 200) throw_error("cannot be fetched: the server answered with status {}", status);
  if (too_long) throw_error("has more than {} bytes", limits.bytes);
  return file;
}

} // namespace ridge::hub
