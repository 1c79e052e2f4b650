// Pulls by URL.
#include "hub/hub_cache.h"
#include "hub/puller.h"
#include "support/http/fake_hub.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>

using namespace ridge;
using namespace ridge::hub;
using namespace ridge::tests;
namespace fs = std::filesystem;

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
  puller.options.policy.tries = 1;
  CHECK(holds(puller.refusal(url), "Wide-Q8_0.gguf: "));
  dying = false;
  SUBCASE("unchanged") {
    server.clear();
    const Pulled pulled = puller.pull(url);
    CHECK(pulled.path == puller.folder / "downloads/Wide-Q8_0.gguf");
    CHECK(server.requests().at(1).header("range") == "bytes=1200000-2999999");
    CHECK(server.requests().at(1).header("if-range") == "\"a\"");
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
  CHECK(holds(puller.refusal(server.address() + "/page.html"), "not a GGUF file"));
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

TEST_CASE("a file that is there already is checked where the server has a hash, and else said to be old") {
  std::string hash;
  FakeServer server([&](const HttpRequest& request, const HttpReply& reply) {
    return send_file(request, reply, kBig, hash.empty() ? "" : "X-Linked-ETag: \"" + hash + "\"\r\n");
  });
  Puller puller("http://127.0.0.1:1");
  const std::string url = server.address() + "/Wide-Q8_0.gguf", there = puller.folder / "downloads/Wide-Q8_0.gguf";
  fs::create_directories(puller.options.downloads);
  const std::string other = random_bytes(kBig.size(), 7);
  puller.folder.write("downloads/Wide-Q8_0.gguf", other);

  CHECK(puller.pull(url).path == there);
  CHECK(read_whole(there) == other);
  REQUIRE(puller.notes.size() == 1);
  CHECK(puller.notes[0] ==
        "Wide-Q8_0.gguf: already exists with the right size, not downloaded again; the server has no checksum");
  puller.notes.clear();
  hash = sha256_of(kBig);
  SUBCASE("another file") {
    std::vector<std::string> shown;
    puller.options.progress = [&](const std::string& what, int64_t, int64_t) { shown.push_back(what); };
    CHECK(puller.pull(url).path == there);
    CHECK(read_whole(there) == kBig);
    REQUIRE(puller.notes.size() == 2);
    CHECK(puller.notes[0] ==
          "Wide-Q8_0.gguf: the existing file has another SHA-256 than the server's; downloading it again");
    REQUIRE_FALSE(shown.empty());
    CHECK(shown[0] == "checking Wide-Q8_0.gguf");
    puller.notes.clear();
    server.clear();
    CHECK(puller.pull(url).path == there);
    CHECK(server.requests().size() == 1);
    CHECK(puller.notes == std::vector<std::string>{"Wide-Q8_0.gguf: already exists with the right SHA-256"});
  }
  SUBCASE("another file, and nothing to be had") {
    hash = std::string(64, 'a');
    CHECK(holds(puller.refusal(url), "the SHA-256 is "));
    CHECK(read_whole(there) == other);
  }
  SUBCASE("cancelled") {
    std::atomic<bool> cancel = false;
    puller.options.policy.cancel = &cancel;
    puller.options.progress = [&](const std::string&, int64_t, int64_t) { cancel = true; };
    CHECK(holds(puller.refusal(url), "was cancelled"));
    CHECK(read_whole(there) == other);
  }
  CHECK(puller.files() == std::vector<std::string>{"downloads/Wide-Q8_0.gguf"});
}
