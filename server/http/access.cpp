#include "server/http/access.h"

#include "core/strings/loopback.h"
#include "core/strings/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <climits>
#include <unistd.h>

namespace ridge::server {
namespace {

// "[::1]:8080" -> "::1", "Localhost.:8080" -> "localhost"
std::string host_of(std::string_view authority) {
  if (authority.starts_with('['))
    return core::lower(authority.substr(1, std::min(authority.find(']'), authority.size()) - 1));
  std::string host = core::lower(authority.substr(0, authority.find(':')));
  if (host.ends_with('.')) host.pop_back();
  return host;
}

bool is_address(const std::string& host) {
  std::array<uint8_t, sizeof(in6_addr)> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool is_loopback(const std::string& host) { return core::is_loopback(host) || host.ends_with(".localhost"); }

bool is_this_machine(const std::string& host) {
  static const std::string name = [] {
    std::array<char, HOST_NAME_MAX + 1> buffer{};
    gethostname(buffer.data(), HOST_NAME_MAX);
    return core::lower(buffer.data());
  }();
  if (name.empty()) return false;
  const std::string plain = name.substr(0, name.find('.'));
  return host == name || host == plain || host == plain + ".local";
}

bool host_is_allowed(const std::string& host, const AccessRules& rules) {
  return is_loopback(host) || is_address(host) || host == "host.docker.internal" || is_this_machine(host) ||
         std::ranges::any_of(rules.hosts, [&](const std::string& one) { return one == "*" || host_of(one) == host; });
}

bool origin_is_allowed(std::string_view origin, std::string_view own_authority, const AccessRules& rules) {
  if (rules.cors == "*" || origin == rules.cors) return true;
  const size_t colon = origin.find("://");
  if (colon == std::string_view::npos) return false; // "null"
  const std::string scheme = core::lower(origin.substr(0, colon));
  if (scheme == "http" || scheme == "https") {
    const std::string_view authority = origin.substr(colon + 3);
    return authority == own_authority || is_loopback(host_of(authority));
  }
  // Pages of programs: editors, desktop and mobile apps, browser extensions.
  return scheme == "vscode-webview" || scheme == "vscode-file" || scheme == "app" || scheme == "tauri" ||
         scheme == "capacitor" || scheme == "ionic" || scheme.ends_with("-extension");
}

} // namespace

std::string refusal_of(const HttpRequest& request, const AccessRules& rules) {
  const std::string_view authority = request.header("Host").value_or("");
  if (const std::string host = host_of(authority); !authority.empty() && !host_is_allowed(host, rules))
    return fmt::format(
        "Host: {} is not a known name of this machine; to allow it, start ridge serve with --allow-host {}", host,
        host);
  if (const auto origin = request.header("Origin")) {
    if (!origin_is_allowed(*origin, authority, rules))
      return fmt::format(
          "Origin: requests from pages of {} are refused; to allow them, start ridge serve with --cors {}", *origin,
          *origin);
  } else if (core::lower(request.header("Sec-Fetch-Site").value_or("")) == "cross-site" && rules.cors != "*") {
    return "Sec-Fetch-Site: requests from pages of other sites are refused; to allow one, start ridge serve with "
           "--cors ORIGIN";
  }
  return "";
}

} // namespace ridge::server
