// The chat page that a browser gets at the server's root: one file, made of what lies in this folder.
#pragma once

#include <string>

namespace ridge::server {

struct Page {
  std::string content; // HTML
  // For its headers: only its own script and style run, by their hashes, it connects to this server only, and its
  // script makes no markup of texts.
  std::string policy;
};
const Page& chat_page();

} // namespace ridge::server
