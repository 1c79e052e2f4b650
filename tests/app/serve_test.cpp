// ridge serve: start and stop.
#include "support/http/socket.h"
#include "support/process.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fstream>

using namespace ridge;

namespace {

class Served {
 public:
  explicit Served(std::vector<std::string> args, int log = -1) {
    args.insert(args.begin(), {RIDGE_BINARY, "serve", "--port", "0"});
    int out[2];
    REQUIRE(::pipe(out) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(out[1], 1);
      ::dup2(log >= 0 ? log : ::open("/dev/null", O_WRONLY), 2);
      tests::exec(args);
    }
    ::close(out[1]);
    std::string line;
    for (char c; ::read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(out[0]);
    REQUIRE(line.starts_with("http://127.0.0.1:"));
    port_ = std::stoi(line.substr(line.rfind(':') + 1));
  }
  ~Served() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    tests::wait_for(pid_);
  }

  void signal(int number) const { ::kill(pid_, number); }
  double resident_mib() const {
    int64_t pages = 0;
    std::ifstream("/proc/" + std::to_string(pid_) + "/statm") >> pages >> pages;
    return static_cast<double>(pages * ::sysconf(_SC_PAGESIZE)) / (1 << 20);
  }
  int status() { return tests::wait_for(std::exchange(pid_, 0)); }

  tests::Socket connect() const { return tests::Socket(port_); }
  std::string ask(const std::string& head, const std::string& body = "") const { return connect().ask(head, body); }

 private:
  pid_t pid_ = 0;
  int port_ = 0;
};

const std::string kLong = R"({"messages": [{"role": "user", "content": "What is ridge?"}], "temperature": 0,
                              "max_tokens": 30, "stream": true})";

} // namespace

TEST_CASE("ridge serve serves the guide, and lets a request end when it is told to stop") {
  Served served({"--device", "cpu"});
  CHECK(served.ask("GET /v1/models").find("\"id\":\"guide\"") != std::string::npos);
  tests::Socket socket = served.connect();
  REQUIRE(socket.request("POST /v1/chat/completions", kLong));
  REQUIRE(socket.wait_for_byte());
  served.signal(SIGTERM);
  CHECK(socket.rest().find("data: [DONE]") != std::string::npos);
  CHECK(served.status() == 0);
}

TEST_CASE("sections of the configuration file hold for each of several models, beside aliases and pins") {
  const tests::TemporaryFolder folder;
  tests::TinyModel().write(folder / "a.gguf");
  tests::TinyModel{.seed = 8}.write(folder / "b.gguf");
  const std::string config =
      folder.write("config.ini", "predict = 7\n[serve]\nctx-size = 256\nalias = first=a\npin = b\n"
                                 "[model \"a\"]\nctx-size = 128\npredict = 3\n"
                                 "[model \"b\"]\nparallel = 2\ntemp = 0\n");
  Served served({"--config", config, "--device", "cpu", "--models-dir", folder.path(), "--ignore-eos"});
  const auto holds = [](const std::string& answer, const char* text) { return answer.find(text) != std::string::npos; };
  const std::string loaded = served.ask("GET /metrics");
  CHECK(holds(loaded, "ridge_model_loaded{model=\"a\"} 0"));
  CHECK(holds(loaded, "ridge_model_loaded{model=\"b\"} 1"));
  CHECK(holds(served.ask("POST /v1/completions", R"({"model": "first", "prompt": "x"})"), "\"completion_tokens\":3"));
  CHECK(holds(served.ask("POST /v1/completions", R"({"model": "b", "prompt": "x"})"), "\"completion_tokens\":7"));
  CHECK(holds(served.ask("GET /props?model=a"), "\"n_ctx\":128"));
  CHECK(holds(served.ask("GET /props?model=a"), "\"total_slots\":4"));
  CHECK(holds(served.ask("GET /props?model=b"), "\"n_ctx\":256"));
  CHECK(holds(served.ask("GET /props?model=b"), "\"total_slots\":2"));

  tests::TinyModel{.seed = 9}.write(folder / "c.gguf");
  CHECK(holds(served.ask("GET /models?reload=1"), "\"id\":\"c\""));
  CHECK(holds(served.ask("POST /v1/completions", R"({"model": "c", "prompt": "x"})"), "\"completion_tokens\":7"));
  CHECK(holds(served.ask("POST /v1/completions", R"({"model": "first", "prompt": "x"})"), "\"completion_tokens\":3"));

  const auto refusal = [&](const std::string& text, std::vector<std::string> args = {}) {
    const std::string path = folder.write("wrong.ini", text);
    args.insert(args.begin(), {RIDGE_BINARY, "serve", "--config", path, "--models-dir", folder.path()});
    const tests::Result result = tests::run(args);
    CHECK(result.status == 2);
    CHECK(std::ranges::count(result.err, '\n') == 1);
    return result.err;
  };
  CHECK(holds(refusal("[model \"a\"]\nport = 1\n"), "wrong.ini:2: port applies to the whole server"));
  CHECK(holds(refusal("[model \"a\"]\n\nparallel = 0\n"), "wrong.ini:3)"));
  CHECK(holds(refusal("", {"--pin", "d"}), "--pin d: unknown model; available: a, b, c"));
  CHECK(holds(refusal("", {"--alias", "x"}), "--alias x: say which of the models: x=MODEL"));

  Served one({"--device", "cpu", "-m", folder / "a.gguf", "--alias", "mine"});
  CHECK(holds(one.ask("GET /v1/models"), "\"id\":\"mine\""));
}

TEST_CASE("a second signal ends ridge serve at once") {
  Served served({"--device", "cpu", "--ignore-eos", "-c", "100000"});
  tests::Socket socket = served.connect();
  REQUIRE(socket.request("POST /v1/completions", R"({"prompt": "ridge", "max_tokens": 90000, "stream": true})"));
  REQUIRE(socket.wait_for_byte());
  served.signal(SIGINT);
  // Equal signals do not queue.
  REQUIRE(tests::eventually("the server to close its port", [&] { return !served.connect().is_open(); }));
  served.signal(SIGINT);
  CHECK(served.status() == 130);
}

TEST_CASE("ridge serve asks for the key in its file, and says what is wrong with one") {
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "key") << "secret\n";
  std::ofstream(folder / "empty") << "\n";
  const Served served({"--device", "cpu", "--api-key-file", folder / "key"});
  CHECK(served.ask("GET /v1/models").starts_with("HTTP/1.1 401"));
  CHECK(served.ask("GET /health").starts_with("HTTP/1.1 200"));
  const tests::Result refused = tests::run({RIDGE_BINARY, "serve", "--api-key-file", folder / "empty"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("expected the key on a single line") != std::string::npos);
}

TEST_CASE("ridge serve serves a folder's models by name") {
  const tests::TemporaryFolder folder;
  tests::TinyModel().write(folder / "tiny.gguf");
  std::ofstream(folder / "broken.gguf") << "no model";
  Served served({"--device", "cpu", "--models-dir", folder.path(), "--memory", "1GiB", "--idle-unload", "100"});
  const auto status = [&](const char* model) {
    const std::string body = R"({"prompt": "a", "max_tokens": 2, "model": ")" + std::string(model) + "\"}";
    return served.ask("POST /v1/completions", body).substr(9, 3);
  };
  CHECK(status("tiny") == "200");
  CHECK(status("broken") == "500");
  CHECK(status("none") == "404");
  CHECK(served.ask("GET /api/ps").find("\"tiny\"") != std::string::npos);
  served.signal(SIGTERM);
  CHECK(served.status() == 0);
  CHECK(tests::run({RIDGE_BINARY, "serve", "--memory", "1GiB"}).status == 2);
}

TEST_CASE("memory that large bodies took goes back") {
  const Served served({"--device", "cpu"});
  std::string numbers, lists;
  for (int i = 0; i < 1 << 20; ++i) numbers += "0,0,0,0,";
  for (int i = 0; i < 1 << 18; ++i) lists += "[],{},";
  const std::pair<const char*, std::string> requests[] = {
      {"POST /v1/chat/completions", R"({"messages": [)" + numbers + "0]}"},
      {"POST /tokenize", R"({"content": [)" + lists + "0]}"},
      {"POST /tokenize", R"({"content": ")" + std::string(4 << 20, 'a') + "\"}"}};
  const auto ask_all = [&] {
    for (const auto& [head, body] : requests) CHECK(!served.ask(head, body).empty());
  };
  served.ask("POST /tokenize", R"({"content": "text"})");
  const double before = served.resident_mib();
  for (int i = 0; i < 3; ++i) ask_all();
  CHECK(tests::eventually("the memory to be given back", [&] { return served.resident_mib() <= 1.2 * before + 8; }));
}

TEST_CASE("a log that is full takes nothing from answers, nor does one that is no longer read") {
  int broken[2];
  REQUIRE(::pipe(broken) == 0);
  ::close(broken[0]);
  for (const int log : {::open("/dev/full", O_WRONLY), broken[1]}) {
    Served served({"--device", "cpu"}, log);
    ::close(log);
    for (int i = 0; i < 2; ++i)
      CHECK(served.ask("POST /v1/completions", R"({"prompt": "a", "max_tokens": 1})").find("\"choices\"") !=
            std::string::npos);
    served.signal(SIGTERM);
    CHECK(served.status() == 0);
  }
}

TEST_CASE("ridge serve answers and ends while its log is not read") {
  int log[2];
  REQUIRE(::pipe(log) == 0);
  const int room = ::fcntl(log[1], F_SETPIPE_SZ, 4096); // a page, full after some lines
  Served served({"--device", "cpu"}, log[1]);
  constexpr int kRequests = 60;
  int answered = 0;
  for (int i = 0; i < kRequests; ++i)
    answered += served.ask("POST /v1/completions", R"({"prompt": "a", "max_tokens": 1})").starts_with("HTTP/1.1 200");
  CHECK(answered == kRequests);
  int waiting = 0;
  CHECK(::ioctl(log[0], FIONREAD, &waiting) == 0);
  CHECK(waiting > room / 2);
  served.signal(SIGTERM);
  CHECK(served.status() == 0);
  ::close(log[0]);
  ::close(log[1]);
}
