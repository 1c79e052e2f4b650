// Names of this machine that mean it everywhere.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace ridge::core {

// `host` in lower case, without port and brackets.
inline bool is_loopback(const std::string& host) {
  in_addr address;
  return host == "localhost" || host == "::1" ||
         (inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

} // namespace ridge::core
