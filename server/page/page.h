// The chat page at the root.
#pragma once

#include <string>

namespace ridge::server {

struct Page {
  std::string content;
  // Allows only the page's own script and style (by hashes), connections to this server, and trusted types.
  std::string policy;
};
const Page& chat_page();

} // namespace ridge::server
