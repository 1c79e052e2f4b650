// Decides which web pages may use a server without a key, since browsers send requests for any page.
#pragma once

#include "server/http/message.h"

#include <string>
#include <vector>

namespace ridge::server {

struct AccessRules {
  std::vector<std::string> hosts; // names that are allowed besides loopback ones; "*": any
  std::string cors;               // origin whose pages may read answers; "*": any; empty: none
};

// Checks Host (DNS rebinding), Origin and Sec-Fetch-Site (requests of other sites). Returns why the request is refused
// and what would allow it; empty: allowed.
std::string refusal_of(const HttpRequest& request, const AccessRules& rules);

} // namespace ridge::server
