// Several models behind one server: they come when a request names them, make room for each other, and a broken one
// disturbs no other.
#include "core/error.h"
#include "server/server.h"
#include "support/http/client.h"
#include "support/http/patience.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "support/watchdog.h"

#include <atomic>
#include <doctest/doctest.h>
#include <fstream>
#include <thread>

using namespace ridge;
using server::Json;
using tests::Socket;

namespace {

struct SeveralModels {
  explicit SeveralModels(
      const tests::TemporaryFolder& folder, double memory_bytes = 0, double idle_seconds = 0,
      const engine::Notice& log = [](const std::string&) {}, int64_t context = -1)
      : models(server::model_files(folder.path()), {setup(context), memory_bytes, idle_seconds}, {}, log),
        server(models, {.port = 0, .limits = tests::patient()}), thread([this] { server.run(); }) {}
  ~SeveralModels() {
    server.stop();
    thread.join();
  }

  static server::ModelSetup setup(int64_t context = -1) {
    server::ModelSetup setup;
    setup.model.context = context;
    setup.model.device = "cpu";
    setup.model.threads = 1;
    setup.sampling.ignore_eos = true;
    return setup;
  }

  std::string ask(const std::string& model, int64_t max_tokens = 3) const {
    Json body = {{"prompt", "hello"}, {"max_tokens", max_tokens}, {"stream", max_tokens > 100}};
    if (!model.empty()) body["model"] = model;
    return Socket(server.port()).ask("POST /v1/completions", body.dump());
  }
  bool answers(const std::string& model) const { return ask(model).starts_with("HTTP/1.1 200"); }
  Json get(const std::string& path) const {
    const tests::HttpReply result = tests::HttpClient(server.port()).get(path);
    REQUIRE(result.whole);
    return Json::parse(result.body);
  }
  std::string loaded() const { // the names of the models that are
    std::string names;
    const Json running = get("/api/ps");
    for (const Json& model : running["models"]) names += model["name"].get<std::string>() + " ";
    return names;
  }

  server::Models models;
  server::Server server;
  std::thread thread;
};

// Files for a.gguf, b.gguf and one that is broken.
struct ThreeFiles {
  ThreeFiles() {
    tests::TinyModel().write(folder / "a.gguf");
    tests::TinyModel{.seed = 8}.write(folder / "b.gguf");
    std::ofstream(folder / "broken.gguf") << "GGUF but not really";
    std::ofstream(folder / "notes.txt") << "no model";
  }
  // Room for one of them, but not for two.
  static double room_for_one(const tests::TemporaryFolder& folder) {
    return 1.5 * server::ServedModel::bytes_needed(engine::open_model(folder / "a.gguf"), SeveralModels::setup());
  }
  tests::TemporaryFolder folder;
};

} // namespace

TEST_CASE("models are loaded when a request names them") {
  const ThreeFiles files;
  const SeveralModels endpoint(files.folder);
  CHECK(endpoint.get("/v1/models")["data"].size() == 3);
  CHECK(endpoint.get("/api/tags")["models"][1]["name"] == "b");
  CHECK(endpoint.loaded() == "");
  CHECK(endpoint.answers("b"));
  CHECK(endpoint.loaded() == "b ");
  CHECK(endpoint.answers("")); // the last one
  CHECK(endpoint.loaded() == "b ");
  CHECK(endpoint.answers("a:latest"));
  CHECK(endpoint.loaded() == "a b ");
  CHECK(endpoint.get("/props?model=a")["model"] == "a");
  CHECK(endpoint.get("/v1/models")["data"][0]["status"]["value"] == "loaded");
  CHECK(endpoint.get("/v1/models/b") == endpoint.get("/v1/models")["data"][1]);
  CHECK(Socket(endpoint.server.port()).ask("GET /v1/models/c").starts_with("HTTP/1.1 404"));
  const std::string metrics = Socket(endpoint.server.port()).ask("GET /metrics");
  CHECK(metrics.find("\nridge_requests_total{model=\"b\"} 2\n") != std::string::npos);
  CHECK(metrics.find("\nridge_model_loaded{model=\"broken\"} 0\n") != std::string::npos);

  CHECK(endpoint.ask("c").starts_with("HTTP/1.1 404"));
  const std::string broken = endpoint.ask("broken");
  CHECK(broken.starts_with("HTTP/1.1 500"));
  CHECK(broken.find("the model broken cannot be loaded: ") != std::string::npos);
  CHECK(endpoint.answers("a"));
  CHECK(endpoint.loaded() == "a b ");
}

TEST_CASE("models are loaded and unloaded by name, as clients of llama.cpp's server ask") {
  const ThreeFiles files;
  const SeveralModels endpoint(files.folder);
  const auto ask = [&](const char* what, const Json& body) {
    const tests::HttpReply reply =
        tests::HttpClient(endpoint.server.port()).post(fmt::format("/models/{}", what), body.dump());
    REQUIRE(reply.whole);
    return std::pair(reply.status, Json::parse(reply.body));
  };
  const std::pair done(200, Json{{"success", true}});
  CHECK(ask("load", {{"model", "b"}}) == done);
  CHECK(endpoint.loaded() == "b ");
  CHECK(endpoint.get("/v1/models")["data"][1]["meta"]["n_ctx_train"] == 512);
  CHECK(ask("unload", {{"model", "b"}}) == done);
  while (!endpoint.loaded().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(ask("load", {{"model", "c"}}).first == 404);
  CHECK(ask("load", Json::object()).first == 400);
}

TEST_CASE("the model unused for longest makes room, and its counters stay") {
  const ThreeFiles files;
  const SeveralModels endpoint(files.folder, ThreeFiles::room_for_one(files.folder));
  for (const char* model : {"a", "b", "a"}) {
    CHECK(endpoint.answers(model));
    CHECK(endpoint.loaded() == std::string(model) + " ");
  }
  const std::string metrics = Socket(endpoint.server.port()).ask("GET /metrics");
  CHECK(metrics.find("\nridge_requests_total{model=\"a\"} 2\n") != std::string::npos);
  CHECK(metrics.find("\nridge_requests_total{model=\"b\"} 1\n") != std::string::npos);

  const SeveralModels narrow(files.folder, 1000);
  CHECK(narrow.ask("a").find("--memory allows") != std::string::npos);
}

TEST_CASE("a model that is generating stays until its answer is whole, and no request waits for longer") {
  const ThreeFiles files;
  const SeveralModels endpoint(files.folder, ThreeFiles::room_for_one(files.folder));
  Socket writing(endpoint.server.port());
  const Json body = {{"model", "a"}, {"prompt", "hello"}, {"max_tokens", 400}, {"stream", true}};
  REQUIRE(writing.request("POST /v1/completions", body.dump()));
  REQUIRE(writing.wait_for_byte());
  bool other = false, again = false;
  std::thread for_room([&] { other = endpoint.answers("b"); });
  std::thread beside([&] { again = endpoint.answers("a"); });
  CHECK(endpoint.get("/health")["status"] == "ok");
  const std::string rest = writing.rest();
  for_room.join();
  beside.join();
  CHECK(rest.find("data: [DONE]") != std::string::npos);
  CHECK(rest.find("\"finish_reason\":\"length\"") != std::string::npos);
  CHECK(other);
  CHECK(again);
}

TEST_CASE("many requests for models that do not fit together are all answered") {
  const ThreeFiles files;
  const SeveralModels endpoint(files.folder, ThreeFiles::room_for_one(files.folder));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i)
    clients.emplace_back([&, i] {
      for (int k = 0; k < 5; ++k) wrong += !endpoint.answers((i + k) % 2 == 0 ? "a" : "b");
    });
  for (std::thread& client : clients) client.join();
  CHECK(wrong == 0);
}

TEST_CASE("a model that no request uses is unloaded after a while") {
  const ThreeFiles files;
  const SeveralModels long_kept(files.folder, 0, 1e6);
  CHECK(long_kept.answers("a"));
  CHECK(long_kept.get("/api/ps")["models"][0].contains("expires_at"));

  const SeveralModels endpoint(files.folder, 0, 0.3);
  for (int i = 0; i < 2; ++i) {
    CHECK(endpoint.answers("a"));
    CHECK(tests::comes("the model to be unloaded", [&] { return endpoint.loaded() == ""; }));
  }
}

TEST_CASE("a model is not loaded again while its idle copy still goes") {
  const ThreeFiles files;
  std::atomic<bool> goes = false, gone = false;
  const SeveralModels endpoint(files.folder, 0, 0.3, [&](const std::string& line) {
    if (line.find("is unloaded") == std::string::npos || gone) return;
    goes = true; // for as long as this takes
    const auto state = [&] { return endpoint.models.states()[0]; };
    CHECK(tests::comes("a request that waits for the model", [&] { return state().waiting > 0; }));
    CHECK(!state().loading);
    gone = true;
  });
  CHECK(endpoint.answers("a"));
  REQUIRE(tests::comes("the model to be unloaded", [&] { return goes.load(); }));
  CHECK(endpoint.answers("a"));
  CHECK(gone);
}

TEST_CASE("asking whether models are idle does not wait until they are drained") {
  const ThreeFiles files;
  SeveralModels endpoint(
      files.folder, 0, 0, [](const std::string&) {}, 1 << 20);
  Socket writing(endpoint.server.port());
  const Json body = {{"model", "a"}, {"prompt", "hello"}, {"max_tokens", 1'000'000}, {"stream", true}}; // hours
  REQUIRE(writing.request("POST /v1/completions", body.dump()));
  REQUIRE(writing.wait_for_byte());
  endpoint.models.stop();
  std::atomic<bool> drained = false;
  std::thread draining([&] {
    endpoint.models.drain();
    drained = true;
  });
  {
    const tests::Guard guard("requests beside a model that is drained to be refused");
    while (endpoint.answers("a")) { // until it is
    }
    CHECK(!endpoint.models.idle());
  }
  CHECK(!drained);
  writing.abort();
  draining.join();
}

TEST_CASE("a folder's models have names of their own, and split ones are one") {
  const tests::TemporaryFolder folder;
  CHECK_THROWS_AS(server::model_files(folder.path()), Error);
  CHECK_THROWS_AS(server::model_files(folder / "nowhere"), Error);
  for (const char* name : {"big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "small.gguf"})
    std::ofstream(folder / name) << "GGUF";
  const std::vector<server::ModelFile> files = server::model_files(folder.path());
  REQUIRE(files.size() == 2);
  CHECK(files[0].name == "big");
  CHECK(files[1].name == "small");
  CHECK_THROWS_WITH_AS(server::Models({{"x", "1/x.gguf"}, {"x", "2/x.gguf"}}, {}, {}, [](const std::string&) {}),
                       "1/x.gguf and 2/x.gguf would both be called x: rename one", Error);
}

TEST_CASE("pages of another origin may read answers only where that was asked for") {
  const ThreeFiles files;
  server::Models models(server::model_files(files.folder.path()), {}, {}, [](const std::string&) {});
  for (const std::string origin : {"", "http://localhost:3000"}) {
    server::Server server(models, {.port = 0, .key = "secret", .access = {{}, origin}});
    std::thread thread([&] { server.run(); });
    tests::HttpClient client(server.port());
    const tests::HttpReply asked = client.ask("OPTIONS", "/v1/chat/completions"), read = client.get("/health");
    REQUIRE((asked.whole && read.whole));
    CHECK((asked.status == 204) == !origin.empty());
    CHECK(read.header("Access-Control-Allow-Origin") == origin);
    if (!origin.empty()) CHECK(client.get("/v1/models").status == 401);
    server.stop();
    thread.join();
  }
}
