// Pulls from good and faulty hubs.
#include "hub/hub_cache.h"
#include "hub/names.h"
#include "hub/puller.h"
#include "hub/speed.h"
#include "support/http/fake_hub.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace ridge;
using namespace ridge::hub;
using namespace ridge::tests;
namespace fs = std::filesystem;

namespace {

const std::string kRepository = "hub/models--acme--Tall-GGUF";

} // namespace

TEST_CASE("a pull fills Hugging Face's cache, asks in ranges, and gives the token to the hub alone") {
  FakeHub hub;
  hub.files = {
      {"Tall-Q8_0.gguf", kSmall}, {"sub/Tall-Q4_K_M.gguf", kBig}, {"mmproj-F16.gguf", "eyes"}, {"README.md", "text"}};
  Puller puller(hub.hub.address());
  puller.options.policy.token = "hf_secret";
  puller.options.download.piece_bytes = 500'000;
  puller.options.projector = kNoProjector;
  const Pulled pulled = puller.pull("hf:acme/Tall-GGUF");
  CHECK(read_whole(pulled.path) == kBig);
  const std::string hash = sha256_of(kBig), link = kRepository + "/snapshots/" + hub.commit + "/sub/Tall-Q4_K_M.gguf";
  CHECK(pulled.path == puller.folder / link);
  CHECK(fs::read_symlink(pulled.path) == "../../../blobs/" + hash);
  CHECK(read_whole(puller.folder / (kRepository + "/refs/main")) == hub.commit);
  CHECK(puller.files() == std::vector<std::string>{kRepository + "/.ridge-pulled", kRepository + "/blobs/" + hash,
                                                   kRepository + "/refs/main", link});
  CHECK(hub.store.requests().size() == 6);
  for (const HttpRequest& request : hub.store.requests()) CHECK(request.header("authorization").empty());
  for (const HttpRequest& request : hub.hub.requests()) CHECK(request.header("authorization") == "Bearer hf_secret");

  hub.store.clear();
  CHECK(puller.pull("hf:acme/Tall-GGUF:q4_k_m").path == pulled.path);
  CHECK(hub.store.requests().empty());
  CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF/Tall-Q8_0.gguf").path) == kSmall);
  CHECK(puller.refusal("hf:acme/Tall-GGUF:Q2_K") == "hf:acme/Tall-GGUF:Q2_K: has no Q2_K; available: Q8_0, Q4_K_M");

  // Other tools find it; `rm` removes only it.
  const Place place[] = {{Source::hugging_face, puller.options.cache}};
  std::vector<LocalModel> models = local_models(place);
  REQUIRE(models.size() == 2);
  CHECK(find_pulled(models, *parse_reference("hf:acme/Tall-GGUF"))->name == "Tall-Q4_K_M");
  CHECK(find_pulled(models, *parse_reference("hf:acme/Tall-GGUF/sub/Tall-Q4_K_M.gguf"))->name == "Tall-Q4_K_M");
  CHECK(find_pulled(models, *parse_reference("hf:acme/Tall-GGUF:Q2_K")) == nullptr);
  CHECK(find_pulled(models, *parse_reference("hf:acme/Other")) == nullptr);
  CHECK(remove_model(models[0]) == 3'000'000);
  CHECK(local_models(place).size() == 1);
  CHECK_FALSE(fs::exists(puller.folder / (kRepository + "/blobs/" + hash)));
  CHECK(remove_model(local_models(place)[0]) == 1000);
  CHECK(puller.files().empty());
}

TEST_CASE("what is named by its file is pulled and removed whatever its name, and else never chosen") {
  FakeHub hub;
  hub.files = {{"mtp-Tall-Q4_K_M.gguf", "head"},
               {"mmproj-Tall-00001-of-00002.gguf", "left"},
               {"mmproj-Tall-00002-of-00002.gguf", "right"},
               {"Tall-MTP-Q8_0.gguf", kSmall}};
  Puller puller(hub.hub.address());
  CHECK(puller.refusal("hf:acme/Tall-GGUF:Q4_K_M") == "hf:acme/Tall-GGUF:Q4_K_M: has no Q4_K_M; available: Q8_0");
  const Place place[] = {{Source::hugging_face, puller.options.cache}};
  for (const char* file : {"mtp-Tall-Q4_K_M.gguf", "mmproj-Tall-00001-of-00002.gguf"}) {
    const Reference named = *parse_reference(fmt::format("hf:acme/Tall-GGUF/{}", file));
    const Pulled pulled = hub::pull(named, puller.options);
    CHECK(pulled.path.ends_with(file));
    CHECK(pulled.bytes == (pulled.path.ends_with("-00002.gguf") ? 9 : 4));
    const std::vector<LocalModel> models = local_models(place);
    REQUIRE(find_pulled(models, named));
    CHECK(find_pulled(models, *parse_reference("hf:acme/Tall-GGUF")) == nullptr);
    CHECK(remove_model(*find_pulled(models, named)) == pulled.bytes);
    CHECK(puller.files().empty());
  }
  CHECK(puller.pull("hf:acme/Tall-GGUF").path.ends_with("/Tall-MTP-Q8_0.gguf"));
  fs::create_symlink("../../blobs/" + std::string(64, 'a'),
                     puller.folder / (kRepository + "/snapshots/" + hub.commit + "/mmproj-of-another-tool.gguf"));
  puller.folder.write(kRepository + "/blobs/" + std::string(64, 'a'), "eyes");
  CHECK(local_models(place).size() == 1);
}

TEST_CASE("the best encoder of pictures comes along with a model, and goes with the last one that may need it") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kSmall}, {"Tall-Q8_0.gguf", kBig},       {"mmproj-BF16.gguf", "bf16"},
               {"mmproj-F32.gguf", "f32"},   {"sub/mmproj-F16.gguf", "f16"}, {"mmproj-Q8_0.gguf", "q8"}};
  Puller puller(hub.hub.address());
  const Place place[] = {{Source::hugging_face, puller.options.cache}};
  const std::string at = puller.folder / (kRepository + "/snapshots/" + hub.commit + "/");
  CHECK(puller.pull("hf:acme/Tall-GGUF").path == at + "Tall-Q4_K_M.gguf");
  CHECK(read_whole(at + "mmproj-BF16.gguf") == "bf16");
  CHECK_FALSE(fs::exists(at + "mmproj-F32.gguf"));
  REQUIRE(local_models(place).size() == 1);
  CHECK(local_models(place, true).size() == 2);

  puller.options.projector = "q8_0";
  CHECK(puller.pull("hf:acme/Tall-GGUF:Q8_0").path == at + "Tall-Q8_0.gguf");
  CHECK(read_whole(at + "mmproj-Q8_0.gguf") == "q8");
  puller.options.projector = "sub/mmproj-F16.gguf";
  puller.pull("hf:acme/Tall-GGUF");
  CHECK(read_whole(at + "sub/mmproj-F16.gguf") == "f16");
  puller.options.projector = "Q2_K";
  CHECK(puller.refusal("hf:acme/Tall-GGUF") ==
        "hf:acme/Tall-GGUF: no image or audio encoder Q2_K; available: mmproj-BF16.gguf, mmproj-F32.gguf, "
        "mmproj-Q8_0.gguf, sub/mmproj-F16.gguf");

  const auto remove = [&](const char* name) {
    const std::vector<LocalModel> models = local_models(place, true);
    return remove_model(*std::ranges::find(models, std::string(name), &LocalModel::name));
  };
  CHECK(remove("Tall-Q4_K_M") == 1000);
  CHECK(fs::exists(at + "mmproj-Q8_0.gguf"));
  CHECK(remove("mmproj-BF16") == 4);
  CHECK(remove("Tall-Q8_0") == 3'000'002);
  CHECK(remove("mmproj-F16") == 3);
  CHECK(puller.files().empty());
}

TEST_CASE("an encoder that is another model's is not pulled, and one that breaks off goes on") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kSmall},
               {"mmproj-Tall-f16.gguf", kBig},
               {"mmproj-Wide-f16.gguf", "wide"},
               {"Wide-Q8_0.gguf", "w"}};
  Puller puller(hub.hub.address());
  const std::string at = puller.folder / (kRepository + "/snapshots/" + hub.commit + "/");
  bool dying = true;
  hub.store_before = [&](const HttpRequest& request, const HttpReply&) {
    return dying && request.path.starts_with("/mmproj");
  };
  CHECK(holds(puller.refusal("hf:acme/Tall-GGUF"), "mmproj-Tall-f16.gguf: "));
  dying = false;
  puller.pull("hf:acme/Tall-GGUF");
  CHECK(read_whole(at + "mmproj-Tall-f16.gguf") == kBig);
  CHECK_FALSE(fs::exists(at + "mmproj-Wide-f16.gguf"));
  hub.files = {{"x-Q4_K_M.gguf", "x"}, {"mmproj-a.gguf", "a"}, {"mmproj-b.gguf", "b"}};
  puller.notes.clear();
  puller.pull("hf:acme/Tall-GGUF");
  CHECK(std::ranges::count(
            puller.notes,
            "several image or audio encoders match: mmproj-a.gguf, mmproj-b.gguf: choose one with --mmproj") == 1);
}

TEST_CASE("all parts of a split model are pulled, and what others put there is not removed") {
  FakeHub hub;
  hub.files = {{"Big-Q4_K_M-00001-of-00002.gguf", kSmall},
               {"Big-Q4_K_M-00002-of-00002.gguf", kBig},
               {"Half-Q8_0-00002-of-00002.gguf", "x"}};
  Puller puller(hub.hub.address());
  const Pulled pulled = puller.pull("hf:acme/Tall-GGUF");
  CHECK(pulled.path.ends_with("/Big-Q4_K_M-00001-of-00002.gguf"));
  CHECK(pulled.bytes == 3'001'000);
  const Place place[] = {{Source::hugging_face, puller.options.cache}};
  const std::vector<LocalModel> models = local_models(place);
  REQUIRE(models.size() == 1);
  CHECK(models[0].whole);
  CHECK(holds(puller.refusal("hf:acme/Tall-GGUF:Q8_0"), "has no Q8_0"));
  fs::remove(puller.folder / (kRepository + "/.ridge-pulled"));
  CHECK_THROWS_AS(remove_model(models[0]), Error);
  CHECK(read_whole(pulled.path) == kSmall);
}

TEST_CASE("a pull goes on where connections died, and where a server sends no ranges") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  std::atomic<int64_t> sent = 0;
  bool dying = true, ranges = true;
  hub.store_before = [&](const HttpRequest& request, const HttpReply& reply) {
    if (dying) { // sends 300,000 of the requested bytes
      const size_t first = std::stoul(request.header("range").substr(6));
      if (sent >= 600'000) return true;
      reply.raw(fmt::format("HTTP/1.1 206 x\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n{}",
                            kBig.size() - first, first, kBig.size() - 1, kBig.size(), kBig.substr(first, 300'000)));
      sent += 300'000;
      return true;
    }
    if (ranges) return false;
    reply.raw(fmt::format("HTTP/1.1 200 x\r\nContent-Length: {}\r\n\r\n{}", kBig.size(), kBig));
    return true;
  };
  const std::string said = puller.refusal("hf:acme/Tall-GGUF");
  CHECK(holds(said, "Tall-Q4_K_M.gguf: "));
  CHECK(holds(said, "3 tries"));
  CHECK_FALSE(puller.has_model());

  SUBCASE("with ranges") {
    dying = false;
    hub.store.clear();
    CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF").path) == kBig);
    CHECK(hub.store.requests().at(0).header("range") == "bytes=600000-2999999");
  }
  SUBCASE("without") {
    dying = ranges = false;
    puller.options.download.piece_bytes = 500'000;
    CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF").path) == kBig);
  }
  SUBCASE("cancelled, it goes on too") {
    std::atomic<bool> cancel = true;
    puller.options.policy.cancel = &cancel;
    dying = false;
    CHECK(holds(puller.refusal("hf:acme/Tall-GGUF"), "cancelled"));
    cancel = false;
    CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF").path) == kBig);
  }
}

TEST_CASE("busy servers are asked again") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  std::atomic<int> of_hub = 0, of_store = 0;
  hub.before = [&](const HttpRequest&, const HttpReply& reply) {
    const int now = of_hub++ % 3;
    if (now == 0) reply.send(503, "busy");
    return now < 2; // 1: closes silently
  };
  hub.store_before = [&](const HttpRequest&, const HttpReply& reply) {
    const bool busy = of_store++ % 2 == 0;
    if (busy) reply.send(429, "");
    return busy;
  };
  puller.options.policy.tries = 6;
  CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF").path) == kBig);
}

TEST_CASE("what is refused ends a pull at once, also while another connection hangs") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  puller.options.download.piece_bytes = 2'000'000;
  std::atomic<bool> hangs = false, over = false;
  hub.store_before = [&](const HttpRequest& request, const HttpReply& reply) {
    if (request.header("range") == "bytes=0-1999999") {
      reply.raw("HTTP/1.1 206 x\r\nContent-Length: 2000000\r\nContent-Range: bytes 0-1999999/3000000\r\n\r\nxyz");
      hangs = true;
      (void)tests::eventually("the pull to end", [&] { return over.load(); });
    } else {
      (void)tests::eventually("the other connection to hang", [&] { return hangs.load(); });
      reply.send(403, "");
    }
    return true;
  };
  CHECK(holds(puller.refusal("hf:acme/Tall-GGUF"), "gated model"));
  CHECK(hangs);
  over = true;
}

TEST_CASE("two pulls of one file at once take turns") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  std::vector<std::string> paths(3);
  {
    std::vector<std::jthread> threads;
    for (std::string& path : paths)
      threads.emplace_back([&] {
        PullOptions own = puller.options;
        own.note = nullptr;
        path = hub::pull(*parse_reference("hf:acme/Tall-GGUF"), own).path;
      });
  }
  for (const std::string& path : paths) CHECK(read_whole(path) == kBig);
  CHECK(hub.store.requests().size() == 1);
  CHECK(puller.files().size() == 4);
}

TEST_CASE("a wrong hash is said, and nothing of it stays") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  hub.store_before = [&](const HttpRequest& request, const HttpReply& reply) {
    std::string other = kBig;
    other[1'500'000] ^= 1;
    return send_file(request, reply, other);
  };
  CHECK(holds(puller.refusal("hf:acme/Tall-GGUF"), "the SHA-256 is "));
  CHECK(puller.files().empty());
  hub.store_before = [](const HttpRequest&, const HttpReply&) { return false; };
  CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF").path) == kBig);
}

TEST_CASE("hubs that refuse or misbehave are one line, and no model appears") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  const auto at_hub = [&](const HttpHandler& handler) {
    hub.before = handler;
    return puller.refusal("hf:acme/Tall-GGUF");
  };
  const auto answer = [](int status, const std::string& body, const std::string& headers = "") -> HttpHandler {
    return [=](const HttpRequest&, const HttpReply& reply) {
      reply.send(status, body, headers);
      return true;
    };
  };
  CHECK(holds(at_hub(answer(404, "", "X-Error-Code: RepoNotFound\r\n")), "no such repository"));
  CHECK(holds(at_hub(answer(404, "", "X-Error-Code: RevisionNotFound\r\n")), "no such revision"));
  CHECK(holds(at_hub(answer(401, "", "X-Error-Code: GatedRepo\r\n")), "gated model: accept its terms at"));
  CHECK(holds(at_hub(answer(401, "")), "set HF_TOKEN"));
  CHECK(holds(at_hub(answer(403, "")), "gated model"));
  CHECK(holds(at_hub(answer(418, "")), "status 418"));
  CHECK(holds(at_hub(answer(200, "no json")), "is not valid JSON"));
  CHECK(holds(at_hub(answer(200, "[]")), "expected"));
  CHECK(holds(at_hub(answer(200, R"({"sha": "../../x"})")), "expected"));
  CHECK(holds(at_hub(answer(302, "", "Location: /again\r\n")), "redirects more than"));
  CHECK(holds(at_hub(answer(302, "")), "redirects to no address"));
  CHECK(holds(at_hub(answer(302, "", "Location: file:///etc/passwd\r\n")), "not an https address"));
  CHECK(holds(at_hub([](const HttpRequest&, const HttpReply& reply) {
                reply.raw("HTTP/1.1 200 x\r\n");
                while (reply.raw("X-More: " + std::string(60'000, 'x') + "\r\n")) {
                }
                return true;
              }),
              "headers"));
  CHECK(holds(at_hub([](const HttpRequest&, const HttpReply& reply) {
                reply.raw("HTTP/1.1 200 x\r\n\r\n");
                const std::string more(1 << 20, ' ');
                while (reply.raw(more)) {
                }
                return true;
              }),
              "more than 32 MB"));
  const auto tree = [&](const std::string& list) -> HttpHandler {
    return [=](const HttpRequest& request, const HttpReply& reply) {
      if (!holds(request.path, "/tree/")) return false;
      reply.send(200, list);
      return true;
    };
  };
  const auto entry = [](const std::string& path, const std::string& size = "5",
                        const std::string& oid = std::string(64, 'a')) {
    return fmt::format(R"([{{"type": "file", "path": "{}", "lfs": {{"oid": "{}", "size": {}}}}}])", path, oid, size);
  };
  for (const char* path :
       {"../x-Q4_K_M.gguf", "/etc/x.gguf", "a/../../x.gguf", "a//x.gguf", "./x.gguf", "x\\n.gguf", "x\\u0000.gguf"})
    CHECK_MESSAGE(holds(at_hub(tree(entry(path))), "contains no complete GGUF model"), path);
  for (const char* size : {"0", "-1", "1e30", "\"5\"", "99999999999999999", "null"})
    CHECK_MESSAGE(holds(at_hub(tree(entry("x.gguf", size))), "contains no complete GGUF model"), size);
  CHECK(holds(at_hub(tree(entry("x.gguf", "5", "../../../x"))), "contains no complete GGUF model"));
  CHECK(holds(at_hub(tree(entry("x.gguf", "17000000000000"))), "the disk has"));
  CHECK(holds(at_hub(tree(std::string(size_t{30} << 20, '['))), "nests deeper than"));
  std::string lists = "[[]";
  for (int i = 0; i < 300'000; ++i) lists += ",[]";
  CHECK(holds(at_hub(tree(lists + "]")), "objects and arrays"));
  CHECK(puller.files().empty());
  CHECK_FALSE(puller.has_model());
  hub.before = [](const HttpRequest&, const HttpReply&) { return false; };

  const auto at_store = [&](const HttpHandler& handler) {
    hub.store_before = handler;
    return puller.refusal("hf:acme/Tall-GGUF");
  };
  CHECK(holds(at_store(answer(404, "")), "no such"));
  CHECK(holds(at_store(answer(416, "")), "status 416"));
  CHECK(holds(at_store(answer(206, "12345", "Content-Range: bytes 7-11/3000000\r\n")), "requested bytes"));
  CHECK(holds(at_store(answer(206, "12345", "Content-Range: bytes 0-4/5\r\n")), "requested bytes"));
  CHECK(holds(at_store(answer(206, "12345")), "requested bytes"));
  CHECK(holds(at_store(answer(200, "12345")), "the server sends 5"));
  CHECK(holds(at_store([](const HttpRequest&, const HttpReply& reply) { return reply.raw("nonsense\r\n\r\n"); }),
              "Tall-Q4_K_M.gguf: "));
  CHECK_FALSE(puller.has_model());
  hub.store_before = [](const HttpRequest& request, const HttpReply& reply) {
    return reply.raw(fmt::format("HTTP/1.1 206 x\r\nContent-Range: bytes {}-2999999/3000000\r\n\r\n",
                                 request.header("range").substr(6, request.header("range").find('-') - 6))) &&
           reply.raw(kBig.substr(std::stoul(request.header("range").substr(6)))) &&
           reply.raw(std::string(5'000'000, 'x'));
  };
  CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF").path) == kBig);
}

TEST_CASE("a token goes nowhere else, and from https nowhere unencrypted") {
  FakeServer other([](const HttpRequest&, const HttpReply& reply) { return reply.send(200, "{}"), true; });
  FakeServer hub([&](const HttpRequest&, const HttpReply& reply) {
    return reply.send(307, "", "Location: " + other.address() + "/x\r\n"), true;
  });
  Puller puller(hub.address());
  puller.options.policy.token = "hf_secret";
  puller.refusal("hf:acme/Tall-GGUF");
  REQUIRE(hub.requests().size() == 1);
  REQUIRE(other.requests().size() == 1);
  CHECK(hub.requests().at(0).header("authorization") == "Bearer hf_secret");
  CHECK(other.requests().at(0).header("authorization").empty());
  CHECK(origin_of("https://Host/x") == "https://host:443");
  CHECK(origin_of("http://user@host:80/x") == "http://host:80");
  CHECK_THROWS_AS(origin_of("ftp://host/x"), Error);
}

TEST_CASE("a full disk is one line, and with room again the pull goes on") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  auto* before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit low = {1'000'000, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &low);
  const std::string said = puller.refusal("hf:acme/Tall-GGUF");
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  CHECK(holds(said, "cannot write: File too large"));
  CHECK(read_whole(puller.pull("hf:acme/Tall-GGUF").path) == kBig);
}

TEST_CASE("a pipe in place of a part is refused, never waited for") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", kBig}};
  Puller puller(hub.hub.address());
  puller.pull("hf:acme/Tall-GGUF");
  std::vector<std::filesystem::path> blobs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(puller.options.cache))
    if (entry.path().parent_path().filename() == "blobs" && entry.is_regular_file()) blobs.push_back(entry.path());
  REQUIRE(blobs.size() == 1);
  std::filesystem::remove(blobs[0]);
  REQUIRE(::mkfifo((blobs[0].string() + ".ridge.incomplete").c_str(), 0600) == 0);
  CHECK(holds(puller.refusal("hf:acme/Tall-GGUF"), "is not a regular file"));
}

TEST_CASE("of many models of a type some are named") {
  CHECK(hub::some_of({"a", "b"}) == "a, b");
  const std::string said = hub::some_of(std::vector<std::string>(5000, "name"));
  CHECK(said.ends_with(" and 4976 more"));
  CHECK(said.size() < 200);
}

TEST_CASE("the line of progress says speed and time left") {
  Speed speed;
  CHECK(speed.text(0, 0, 4'000'000'000) == "0 B of 4.00 GB");
  CHECK(speed.text(2, 200'000'000, 4'000'000'000) == "200.00 MB of 4.00 GB, 100.00 MB/s, 38 s left");
  CHECK(speed.text(3, 100, 4'000'000'000) == "100 B of 4.00 GB");
}
