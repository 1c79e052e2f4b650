#include "server/http/message.h"

#include <algorithm>
#include <strings.h>

namespace ridge::server {
namespace {

template <typename Same>
std::optional<std::string_view> find(const std::vector<std::pair<std::string, std::string>>& pairs, Same same) {
  const auto found = std::ranges::find_if(pairs, [&](const auto& pair) { return same(pair.first); });
  return found == pairs.end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

} // namespace

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  return find(headers, [name](const std::string& other) {
    return other.size() == name.size() && strncasecmp(other.data(), name.data(), name.size()) == 0;
  });
}

std::optional<std::string_view> HttpRequest::parameter(std::string_view name) const {
  return find(parameters, [name](const std::string& other) { return other == name; });
}

} // namespace ridge::server
