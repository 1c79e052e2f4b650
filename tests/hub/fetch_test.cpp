// Fetches reach only the public internet.
#include "core/error.h"
#include "hub/http/fetch.h"
#include "support/http/fake_hub.h"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>

using namespace ridge;
using namespace ridge::hub;
using tests::FakeServer;
using tests::HttpReply;
using tests::HttpRequest;

namespace {

bool is_public(const char* text) {
  sockaddr_in v4 = {};
  if (::inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    return is_public_address(reinterpret_cast<const sockaddr&>(v4));
  }
  sockaddr_in6 v6 = {};
  REQUIRE(::inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
  v6.sin6_family = AF_INET6;
  return is_public_address(reinterpret_cast<const sockaddr&>(v6));
}

bool anywhere(const sockaddr&) { return true; }

std::string refusal(const std::string& url, const FetchLimits& limits) {
  try {
    fetch_public(url, limits);
  } catch (const Error& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == line.npos);
    return line;
  }
  return "(fetched)";
}

} // namespace

TEST_CASE("addresses of the public internet are told from all others") {
  for (const char* address :
       {"1.1.1.1",         "8.8.8.8",         "9.255.255.255", "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",     "126.255.255.255", "128.0.0.0",     "169.253.255.255", "172.15.255.255",
        "172.32.0.0",      "192.167.255.255", "192.169.0.0",   "198.17.255.255",  "198.20.0.0",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::1",  "2001:4860::8888", "2003::1"})
    CHECK_MESSAGE(is_public(address), address);
  for (const char* address : {"0.0.0.0",
                              "0.1.2.3",
                              "10.0.0.1",
                              "100.64.0.1",
                              "127.0.0.1",
                              "127.255.255.254",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.1",
                              "192.0.2.1",
                              "192.168.0.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "198.51.100.1",
                              "203.0.113.9",
                              "224.0.0.1",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "::ffff:8.8.8.8",
                              "::ffff:127.0.0.1",
                              "::8.8.8.8",
                              "64:ff9b::7f00:1",
                              "fc00::1",
                              "fd12::1",
                              "fe80::1",
                              "fec0::1",
                              "ff02::1",
                              "2001::1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "3fff::1",
                              "4000::1",
                              "100::1"})
    CHECK_MESSAGE(!is_public(address), address);
  sockaddr other = {};
  other.sa_family = AF_UNIX;
  CHECK_FALSE(is_public_address(other));
}

TEST_CASE("a file is fetched through redirects, within limits of bytes and time") {
  const FakeServer* here = nullptr;
  FakeServer server([&](const HttpRequest& request, const HttpReply& reply) {
    if (request.path == "/file") reply.send(200, "picture");
    if (request.path == "/moved") reply.send(302, "", "Location: /file\r\n");
    if (request.path == "/round") reply.send(302, "", "Location: /round\r\n");
    if (request.path == "/gone") reply.send(404, "no");
    if (request.path == "/local") reply.send(302, "", "Location: file:///etc/passwd\r\n");
    if (request.path == "/endless") {
      reply.raw("HTTP/1.1 200 x\r\n\r\n");
      while (!here->stopping() && reply.raw("more and more")) {
      }
      return false;
    }
    if (request.path == "/slow") {
      reply.raw("HTTP/1.1 200 x\r\nContent-Length: 1000000\r\n\r\n");
      while (!here->stopping() && reply.raw(".")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return false;
    }
    return true;
  });
  here = &server;
  const FetchLimits limits{.bytes = 1000, .seconds = 60, .may_connect = anywhere};
  CHECK(fetch_public(server.address() + "/file", limits) == "picture");
  CHECK(fetch_public(server.address() + "/moved", limits) == "picture");
  CHECK(refusal(server.address() + "/file", {.bytes = 3, .seconds = 60, .may_connect = anywhere}) ==
        "has more than 3 bytes");
  CHECK(refusal(server.address() + "/endless", limits) == "has more than 1000 bytes");
  CHECK(refusal(server.address() + "/gone", limits) == "cannot be fetched: the server answered with status 404");
  CHECK(refusal(server.address() + "/round", limits).find("redirect") != std::string::npos);
  CHECK(refusal(server.address() + "/local", limits).find("is not an https address") != std::string::npos);
  CHECK(refusal(server.address() + "/slow", {.bytes = 1 << 20, .seconds = 0.2, .may_connect = anywhere}) ==
        "cannot be fetched: it takes longer than 0.2 s");
}

TEST_CASE("nothing is fetched from this machine, whatever it is called and however one gets there") {
  FakeServer server([](const HttpRequest&, const HttpReply& reply) {
    reply.send(200, "secret");
    return true;
  });
  const std::string port = server.address().substr(server.address().rfind(':'));
  const FetchLimits limits{.bytes = 1000, .seconds = 60};
  ::setenv("http_proxy", server.address().c_str(), 1); // a proxy would fetch it
  for (const std::string host :
       {"127.0.0.1", "localhost", "2130706433", "0x7f.1", "0", "[::1]", "[::ffff:127.0.0.1]"}) {
    CAPTURE(host);
    CHECK(refusal("http://" + host + port + "/", limits).find("cannot be fetched: ") == 0);
  }
  CHECK(refusal("http://127.0.0.1" + port, limits) == "cannot be fetched: its address is not on the public internet");
  ::unsetenv("http_proxy");
  CHECK(server.requests().empty());

  // A loopback address plays a public server.
  FakeServer elsewhere([&](const HttpRequest&, const HttpReply& reply) {
    reply.send(302, "", fmt::format("Location: http://127.0.0.2{}/\r\n", port));
    return true;
  });
  const auto only_one = [](const sockaddr& address) {
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == htonl(INADDR_LOOPBACK);
  };
  CHECK(refusal(elsewhere.address(), {.bytes = 1000, .seconds = 60, .may_connect = only_one}) ==
        "cannot be fetched: its address is not on the public internet");
  CHECK(elsewhere.requests().size() == 1);
  CHECK(server.requests().empty());
}
