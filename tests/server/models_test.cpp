// Several models: loading, eviction, broken ones.
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
#include <functional>
#include <memory>
#include <mutex>
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
  std::string loaded() const {
    std::string names;
    const Json running = get("/api/ps");
    for (const Json& model : running["models"]) names += model["name"].get<std::string>() + " ";
    return names;
  }

  server::Models models;
  server::Server server;
  std::thread thread;
};

struct ThreeFiles {
  ThreeFiles() {
    tests::TinyModel().write(folder / "a.gguf");
    tests::TinyModel{.seed = 8}.write(folder / "b.gguf");
    std::ofstream(folder / "broken.gguf") << "GGUF but not really";
    std::ofstream(folder / "notes.txt") << "no model";
  }
  // Memory for one model, not for two.
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
  CHECK(endpoint.answers(""));
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

TEST_CASE("a client that leaves before its model has room costs no other model its place") {
  const ThreeFiles files;
  SeveralModels endpoint(files.folder, ThreeFiles::room_for_one(files.folder));
  const auto waiting = [&] { return endpoint.models.states()[1].waiting; };
  {
    const server::ModelService::Use busy = endpoint.models.use("a");
    const std::pair<const char*, const char*> requests[] = {
        {"POST /v1/completions", R"({"model": "b", "prompt": "hello"})"},
        {"POST /models/load", R"({"model": "b"})"},
        {"POST /api/generate", R"({"model": "b"})"},
        {"GET /props?model=b", ""},
    };
    for (const auto& [head, body] : requests) {
      CAPTURE(head);
      {
        Socket leaving(endpoint.server.port());
        REQUIRE(leaving.request(head, body));
        CHECK(tests::eventually("the request to wait", [&] { return waiting() == 1; }));
      }
      CHECK(tests::eventually("the abandoned request to leave the queue", [&] { return waiting() == 0; }));
    }
    CHECK(endpoint.answers("a"));
  }
  CHECK(endpoint.loaded() == "a ");
  CHECK(endpoint.answers("b"));
}

TEST_CASE("a client that leaves before its model has an encoder leaves the model to those who write text") {
  const ThreeFiles files;
  SeveralModels endpoint(files.folder);
  const server::ModelService::Use busy = endpoint.models.use("a");
  const auto waiting = [&] { return endpoint.models.states()[0].waiting; };
  std::atomic<bool> there = true, answered = false;
  std::thread with_pictures(
      [&] { CHECK_THROWS_AS(endpoint.models.use("a", true, [&] { return there.load(); }), server::ApiError); });
  CHECK(tests::eventually("the pictures to wait", [&] { return waiting() == 1; }));
  std::thread text([&] { answered = endpoint.answers("a"); });
  CHECK(tests::eventually("the text to wait, too", [&] { return waiting() == 2; }));
  there = false;
  CHECK(tests::eventually("the text's answer", [&] { return answered.load(); }));
  with_pictures.join();
  text.join();
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

namespace {

// With settings, and a gate for loading.
struct Router {
  explicit Router(const ThreeFiles& files, const std::function<void(std::vector<server::ModelFile>&)>& change,
                  double memory_bytes = 0, engine::LoadSteps steps = {})
      : models(changed(files, change), {SeveralModels::setup(), memory_bytes, 0.2}, std::move(steps),
               [this](const std::string& line) {
                 const std::scoped_lock lock(mutex);
                 if (line.find(" loaded on") != std::string::npos) loads += line.substr(0, line.find(' ')) + " ";
               }),
        server(models, {.port = 0, .limits = tests::patient()}), thread([this] { server.run(); }) {}
  ~Router() {
    server.stop();
    thread.join();
  }
  static std::vector<server::ModelFile> changed(const ThreeFiles& files,
                                                const std::function<void(std::vector<server::ModelFile>&)>& change) {
    std::vector<server::ModelFile> all = server::model_files(files.folder.path());
    change(all);
    return all;
  }
  tests::HttpReply ask(const std::string& model, int64_t max_tokens = 3) const {
    const Json body = {{"model", model}, {"prompt", "hello"}, {"max_tokens", max_tokens}};
    return tests::HttpClient(server.port()).post("/v1/completions", body.dump());
  }
  Json get(const std::string& path) const { return Json::parse(tests::HttpClient(server.port()).get(path).body); }
  int64_t waiting(size_t model) const { return models.states()[model].waiting; }
  std::string loaded_in_order() {
    const std::scoped_lock lock(mutex);
    return loads;
  }

  std::mutex mutex; // guards what follows
  std::string loads;
  server::Models models;
  server::Server server;
  std::thread thread;
};

} // namespace

TEST_CASE("a model has settings and other names of its own") {
  const ThreeFiles files;
  Router router(files, [](std::vector<server::ModelFile>& all) {
    all[0].aliases = {"gpt-4o", "default"};
    server::ModelSetup own = SeveralModels::setup(64);
    own.sampling.max_tokens = 5;
    own.parallel = 9;
    all[1].setup = std::make_shared<server::ModelSetup>(own);
  });
  CHECK(router.models.parallel() == 9);
  CHECK(router.ask("gpt-4o").status == 200);
  CHECK(router.ask("default:latest").status == 200);
  CHECK(router.ask("gpt-5").status == 404);
  CHECK(router.get("/v1/models")["data"][0]["aliases"] == Json({"gpt-4o", "default"}));
  CHECK(router.get("/props?model=a")["n_ctx"] == 512);
  const tests::HttpReply cut = tests::HttpClient(router.server.port())
                                   .post("/v1/completions", Json({{"model", "b"}, {"prompt", "hello"}}).dump());
  CHECK(Json::parse(cut.body)["usage"]["completion_tokens"] == 5);
  CHECK(router.get("/props?model=b")["n_ctx"] == 64);
  CHECK(router.get("/props?model=b")["total_slots"] == 9);
  CHECK_THROWS_WITH_AS(server::Models({{"x", "x.gguf", "", {"y"}}, {"y", "y.gguf"}}, {}, {}, [](const auto&) {}),
                       "y.gguf and x.gguf would have the same name, y: rename one", Error);
}

TEST_CASE("a pinned model stays, and what has no room beside it is refused") {
  const ThreeFiles files;
  const auto pin_a = [](std::vector<server::ModelFile>& all) { all[0].pinned = true; };
  const Router router(files, pin_a);
  const auto state_of = [&](size_t model) { return router.models.states()[model]; };
  CHECK(router.ask("a").status == 200);
  CHECK(router.ask("b").status == 200);
  CHECK(tests::HttpClient(router.server.port()).post("/models/unload", R"({"model": "a"})").status == 400);
  CHECK(tests::eventually("the other model to be unloaded", [&] { return !state_of(1).loaded; }));
  CHECK(state_of(0).loaded);

  const Router narrow(files, pin_a, ThreeFiles::room_for_one(files.folder));
  CHECK(narrow.ask("a").status == 200);
  const tests::HttpReply refused = narrow.ask("b");
  CHECK(refused.status == 500);
  CHECK(refused.body.find("in addition to the pinned models") != std::string::npos);
}

TEST_CASE("answers of a loaded model come to their end while another one is loaded") {
  const ThreeFiles files;
  std::atomic<bool> holds = false, held = false, streamed = false;
  engine::LoadSteps steps;
  steps.progress = [&](std::string_view, int64_t, int64_t) {
    if (!holds) return;
    held = true;
    CHECK(tests::eventually("the other model's stream to end", [&] { return streamed.load(); }));
  };
  Router router(
      files, [](std::vector<server::ModelFile>&) {}, 0, steps);
  REQUIRE(router.ask("a").status == 200);
  holds = true;
  int status = 0;
  std::thread other([&] { status = router.ask("b").status; });
  REQUIRE(tests::eventually("the other model to be on its way", [&] { return held.load(); }));
  CHECK(router.ask("a", 200).status == 200);
  CHECK(router.get("/v1/models")["data"][1]["status"]["value"] == "loading");
  const std::string metrics = tests::HttpClient(router.server.port()).get("/metrics").body;
  CHECK(metrics.find("\nridge_model_waiting{model=\"b\"} 1\n") != std::string::npos);
  streamed = true;
  other.join();
  CHECK(status == 200);
}

TEST_CASE("models are loaded in the order of their first requests, and answer their whole queues before they leave") {
  const ThreeFiles files;
  std::atomic<bool> holds = false;
  engine::LoadSteps steps;
  std::atomic<int> queued = 0;
  constexpr int kEach = 4;
  steps.progress = [&](std::string_view, int64_t, int64_t) {
    if (holds) CHECK(tests::eventually("all requests to wait", [&] { return queued == 2 * kEach; }));
  };
  Router router(
      files, [](std::vector<server::ModelFile>&) {}, ThreeFiles::room_for_one(files.folder), steps);
  holds = true;
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 2 * kEach; ++i) {
    const size_t which = i % 2;
    clients.emplace_back([&, which] { answered += router.ask(which == 0 ? "a" : "b").status == 200; });
    CHECK(tests::eventually("a request to wait", [&] { return router.waiting(which) > i / 2; }));
    ++queued;
  }
  for (std::thread& client : clients) client.join();
  CHECK(answered == 2 * kEach);
  CHECK(router.loaded_in_order() == "a b "); // not once per request
}

TEST_CASE("a model that no request uses is unloaded after a while") {
  const ThreeFiles files;
  const SeveralModels long_kept(files.folder, 0, 1e6);
  CHECK(long_kept.answers("a"));
  CHECK(long_kept.get("/api/ps")["models"][0].contains("expires_at"));

  const SeveralModels endpoint(files.folder, 0, 0.3);
  for (int i = 0; i < 2; ++i) {
    CHECK(endpoint.answers("a"));
    CHECK(tests::eventually("the model to be unloaded", [&] { return endpoint.loaded() == ""; }));
  }
}

TEST_CASE("a model is not loaded again while its idle copy still goes") {
  const ThreeFiles files;
  std::atomic<bool> goes = false, gone = false;
  const SeveralModels endpoint(files.folder, 0, 0.3, [&](const std::string& line) {
    if (line.find("unloaded") == std::string::npos || gone) return;
    goes = true;
    const auto state = [&] { return endpoint.models.states()[0]; };
    CHECK(tests::eventually("a request that waits for the model", [&] { return state().waiting > 0; }));
    CHECK(!state().loading);
    gone = true;
  });
  CHECK(endpoint.answers("a"));
  REQUIRE(tests::eventually("the model to be unloaded", [&] { return goes.load(); }));
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
    while (endpoint.answers("a")) {
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
                       "1/x.gguf and 2/x.gguf would have the same name, x: rename one", Error);
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
