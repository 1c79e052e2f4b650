// Pulling a file by its address, from a server that is no hub.
#include "hub/hub_cache.h"
#include "hub/puller.h"
#include "support/fake_hub.h"

#include <doctest/doctest.h>

using namespace ridge;
using namespace ridge::hub;
using namespace ridge::tests;

TEST_CASE("a file of any address is pulled, and one that changed meanwhile from its beginning") {
  std::string content = kBig, tag = "\"a\"";
  bool dying = true;
  FakeServer server([&](const HttpRequest& request, const HttpReply& reply) {
    if (request.path != "/models/Wide-Q8_0.gguf?download=1") return reply.send(404, ""), true;
    const std::string range = request.header("range");
    if (dying && range != "bytes=0-0") {
      reply.raw(fmt::format(
          "HTTP/1.1 206 x\r\nETag: {}\r\nContent-Length: 3000000\r\nContent-Range: bytes 0-2999999/3000000\r\n\r\n{}",
          tag, content.substr(0, 1'200'000)));
      return false;
    }
    const bool changed = !request.header("if-range").empty() && request.header("if-range") != tag;
    if (changed) return reply.send(200, content, "ETag: " + tag + "\r\n"), true;
    return send_file(request, reply, content, "ETag: " + tag + "\r\n");
  });
  Puller puller("http://127.0.0.1:1");
  const std::string url = server.address() + "/models/Wide-Q8_0.gguf?download=1";
  puller.options.asker.tries = 1;
  CHECK(holds(puller.refusal(url), "Wide-Q8_0.gguf: "));
  dying = false;
  SUBCASE("unchanged") {
    server.clear();
    const Pulled pulled = puller.pull(url);
    CHECK(pulled.path == puller.folder / "downloads/Wide-Q8_0.gguf");
    CHECK(server.requests()[1].header("range") == "bytes=1200000-2999999");
    CHECK(server.requests()[1].header("if-range") == "\"a\"");
  }
  SUBCASE("changed") {
    content = random_bytes(3'000'000, 9);
    tag = "\"b\"";
  }
  CHECK(read_whole(puller.pull(url).path) == content);
  CHECK(puller.files() == std::vector<std::string>{"downloads/Wide-Q8_0.gguf"});
  const Place place[] = {{Source::ridge, puller.options.downloads}};
  CHECK(remove_model(local_models(place).at(0)) == 3'000'000);
  CHECK(holds(puller.refusal(server.address() + "/Other-Q8_0.gguf"), "status 404"));
  CHECK(holds(puller.refusal(server.address() + "/page.html"), "names no GGUF file"));
  CHECK(holds(puller.refusal("http://127.0.0.1:1/x.gguf"), "127.0.0.1"));
}

TEST_CASE("an address names its file, whatever that is called") {
  FakeServer server(
      [](const HttpRequest& request, const HttpReply& reply) { return send_file(request, reply, kSmall); });
  Puller puller("http://127.0.0.1:1");
  CHECK(puller.pull(server.address() + "/mmproj-F16.gguf").path == puller.folder / "downloads/mmproj-F16.gguf");
  const Place place[] = {{Source::ridge, puller.options.downloads}};
  REQUIRE(local_models(place).size() == 1);
  CHECK(remove_model(local_models(place)[0]) == 1000);
}
