// Pages that may use a server without a key.
#include "server/http/access.h"

#include <doctest/doctest.h>

#include <array>
#include <unistd.h>

using namespace ridge;

namespace {

bool allowed(std::vector<std::pair<std::string, std::string>> headers, const server::AccessRules& rules = {}) {
  return server::refusal_of({.headers = std::move(headers)}, rules).empty();
}

bool host_allowed(const std::string& host, const server::AccessRules& rules = {}) {
  return allowed({{"Host", host}}, rules);
}

bool origin_allowed(const std::string& origin, const server::AccessRules& rules = {}) {
  return allowed({{"Host", "127.0.0.1:8080"}, {"Origin", origin}, {"Sec-Fetch-Site", "cross-site"}}, rules);
}

} // namespace

TEST_CASE("a request names this machine, or a name that was allowed") {
  std::array<char, 256> name{};
  REQUIRE(gethostname(name.data(), name.size() - 1) == 0);
  for (const std::string& host :
       std::vector<std::string>{"localhost", "LocalHost:8080", "localhost.", "app.localhost:1", "127.0.0.1:8080",
                                "192.168.1.5", "[::1]:8080", "[fe80::1]", "host.docker.internal:8080", name.data()})
    CHECK_MESSAGE(host_allowed(host), host);
  for (const char* host :
       {"evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "1.2.3", "[::1", "x"})
    CHECK_MESSAGE(host_allowed(host) == (std::string(host) == "[::1"), host);
  CHECK(host_allowed("ridge.lan:8080", {{"ridge.lan"}, ""}));
  CHECK(host_allowed("RIDGE.lan", {{"a", "ridge.lan"}, ""}));
  CHECK(!host_allowed("other.lan", {{"ridge.lan"}, ""}));
  CHECK(host_allowed("other.lan", {{"*"}, ""}));
  CHECK(allowed({}));
}

TEST_CASE("pages of other sites are refused, programs and the machine's own pages are not") {
  for (const char* origin :
       {"http://evil.example", "https://evil.example:8080", "null", "http", "https", "http://127.0.0.1.evil.example",
        "http://localhost.evil.example", "http://192.168.1.7", "file://"})
    CHECK_MESSAGE(!origin_allowed(origin), origin);
  for (const char* origin : {"http://127.0.0.1:8080", "http://localhost:3000", "vscode-webview://abc",
                             "app://obsidian.md", "tauri://localhost", "http://tauri.localhost",
                             "chrome-extension://abc", "moz-extension://abc", "safari-web-extension://abc"})
    CHECK_MESSAGE(origin_allowed(origin), origin);
  CHECK(origin_allowed("https://chat.example", {{}, "https://chat.example"}));
  CHECK(!origin_allowed("https://evil.example", {{}, "https://chat.example"}));
  CHECK(origin_allowed("https://evil.example", {{}, "*"}));
  CHECK(!allowed({{"Host", "localhost"}, {"Sec-Fetch-Site", "cross-site"}}));
  CHECK(allowed({{"Host", "localhost"}, {"Sec-Fetch-Site", "same-origin"}}));
}

TEST_CASE("a refusal says what allows the request") {
  const auto refusal = [](const char* name, const char* value) {
    return server::refusal_of({.headers = {{name, value}}}, {});
  };
  CHECK(refusal("Host", "evil.example:80") == "Host: evil.example is not a known name of this machine; to allow it, "
                                              "start ridge serve with --allow-host evil.example");
  CHECK(refusal("Origin", "http://evil.example") == "Origin: requests from pages of http://evil.example are refused; "
                                                    "to allow them, start ridge serve with --cors http://evil.example");
}
