#include "core/strings/file_url.h"

#include <charconv>

#include <unistd.h>

namespace ridge::core {
namespace {

bool is_this_machine(std::string_view host) {
  char name[256] = "";
  if (host.empty() || host == "localhost") return true;
  return gethostname(name, sizeof name - 1) == 0 && host == name;
}

} // namespace

std::string path_of_file_url(std::string_view url) {
  if (!url.starts_with(kFileUrl)) return "";
  url.remove_prefix(kFileUrl.size());
  if (url.starts_with("//")) {
    url.remove_prefix(2);
    const std::string_view host = url.substr(0, url.find('/'));
    if (!is_this_machine(host)) return "";
    url.remove_prefix(host.size());
  }
  std::string path;
  for (size_t i = 0; i < url.size(); ++i) {
    unsigned char byte = 0;
    if (url[i] != '%') {
      path += url[i];
      continue;
    }
    const std::string_view digits = url.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (error != std::errc() || end != digits.data() + 2 || byte == 0) return "";
    path += static_cast<char>(byte);
    i += 2;
  }
  return path.starts_with('/') ? path : "";
}

} // namespace ridge::core
