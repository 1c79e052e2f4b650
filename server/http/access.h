// Which web pages may drive a server that asks for no key: a browser sends what any page of the world asks it to.
#pragma once

#include "server/http/message.h"

#include <string>
#include <vector>

namespace ridge::server {

struct AccessRules {
  std::vector<std::string> hosts; // names beside those that always mean this machine; "*": any
  std::string cors;               // the origin whose pages may read answers; "*": any; empty: none
};

// Checks Host, so that no page reaches the server by a name of its own that it lets point here (DNS rebinding), and
// Origin and Sec-Fetch-Site, so that no page of another site sends requests. Returns why the request is refused and
// what allows it; empty: it may be answered.
std::string refusal_of(const HttpRequest& request, const AccessRules& rules);

} // namespace ridge::server
