// Many concurrent requests, mostly short or malicious. Afterwards no stream is busy, no connection is open and no
// memory is lost; equal requests got equal answers. RIDGE_STRESS_REQUESTS sets the number; 100,000 take minutes.
#include "support/http/endpoint.h"
#include "support/http/socket.h"
#include "support/numerics.h"
#include "support/temporary_folder.h"
#include "support/watchdog.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;
using tests::Socket;

namespace {

constexpr int kClients = 12;
constexpr int64_t kStreams = 8;
constexpr int64_t kPrefixBytes = 1 << 15, kFolderBytes = 1 << 18; // too small for all prompts

double resident_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

int64_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

uintmax_t folder_bytes(const std::string& path) {
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) bytes += entry.file_size();
  return bytes;
}

Json json_of(const std::string& response) {
  const size_t begin = response.find('{');
  return Json::parse(response.substr(begin, response.rfind('}') + 1 - begin));
}

// Rows of a wrong prompt or file change answers.
class Known {
 public:
  bool agrees(const std::string& request, const std::string& answer) {
    const std::lock_guard lock(mutex_);
    return answers_.try_emplace(request, answer).first->second == answer;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> answers_;
};

class Client {
 public:
  Client(const Endpoint& endpoint, Known& known, uint64_t seed)
      : port_(endpoint.server.port()), known_(known), random_(seed) {}

  void ask() {
    switch (below(14)) {
    case 0: return go_away(chat(true, 200), true);
    case 1: return go_away(chat(false, 200), false);
    case 2: return stop_in_the_middle();
    case 3: return half_close();
    case 4: return refused();
    case 5: return huge();
    case 6: return leave_at_once();
    case 7: return called();
    case 8: return stored();
    default: return answered(chat(below(2) == 0, 1 + below(6)));
    }
  }

  int64_t wrong() const { return wrong_; }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  Json chat(bool stream, uint64_t tokens) {
    static const char* const kQuestions[] = {"What is ridge?", "What is MXFP4?", "", "\xE2\x82\xAC \xF0\x9F\x98\x80"};
    const std::string context = below(2) ? "Of the " + std::to_string(below(200)) + " chapters of a book. " : "";
    Json body = chat_body(context + kQuestions[below(std::size(kQuestions))], static_cast<int64_t>(tokens));
    body["stream"] = stream;
    if (below(2)) {
      body["temperature"] = 1;
      body["seed"] = below(10);
    }
    if (below(8) == 0) body["n"] = 1 + below(4);
    return body;
  }

  bool expect(const std::string& response, std::string_view status, std::string_view end) {
    const std::string_view text = response;
    if (text.starts_with("HTTP/1.1 " + std::string(status)) && text.find(end) != std::string_view::npos) return true;
    MESSAGE("a response that should have been ", status, ": ", response);
    ++wrong_;
    return false;
  }

  void answered(const Json& body) {
    const bool stream = body["stream"];
    const std::string response = Socket(port_).ask("POST /v1/chat/completions", body.dump());
    if (!expect(response, "200", stream ? "data: [DONE]" : "\"completion_tokens\"") || stream) return;
    const Json reply = json_of(response);
    if (known_.agrees(body.dump(), reply["choices"].dump())) return;
    MESSAGE("another answer than before: ", response);
    ++wrong_;
  }

  void called() {
    Json body = chat(below(2) == 0, 200);
    body["tools"] = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters":
        {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}}}])");
    body["tool_choice"] = "required";
    if (below(4) == 0) return go_away(body, true);
    expect(Socket(port_).ask("POST /v1/chat/completions", body.dump()), "200", "tool_calls");
  }

  void stored() { // continues from the stored answer
    Json body = {{"input", "What is a format of weights?"}, {"max_output_tokens", 1 + below(4)}};
    const std::string response = Socket(port_).ask("POST /v1/responses", body.dump());
    if (!expect(response, "200", "\"resp_")) return;
    body["previous_response_id"] = json_of(response)["id"];
    expect(Socket(port_).ask("POST /v1/responses", body.dump()), "200", "\"resp_");
  }

  void go_away(Json body, bool after_a_byte) {
    body["max_tokens"] = 200;
    Socket socket(port_);
    socket.request("POST /v1/chat/completions", body.dump());
    if (after_a_byte) socket.wait_for_byte();
    if (below(2) == 0) socket.abort();
  }

  void stop_in_the_middle() {
    const std::string body = chat(false, 3).dump();
    const std::string whole =
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
        body;
    Socket socket(port_);
    socket.send(std::string_view(whole).substr(0, below(whole.size())));
    if (below(2) == 0) socket.abort();
  }

  void half_close() { // may be answered or dropped
    Socket socket(port_);
    socket.request("POST /v1/chat/completions", chat(false, 3).dump());
    socket.end_of_sending();
    socket.rest();
  }

  void refused() {
    static const char* const kPaths[] = {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/api/chat",
                                         "/api/generate",        "/tokenize",       "/detokenize",  "/apply-template"};
    std::string body;
    switch (below(5)) {
    case 0:
      for (uint64_t i = below(100); i > 0; --i) body += static_cast<char>(below(256));
      body += '{';
      break;
    case 1: body = chat(false, 3).dump().substr(0, 20); break;
    case 2: body = "{\"messages\": [{\"role\": \"user\", \"content\": \"\xC3\x28\"}]}"; break;
    case 3: body = std::string(1 + below(5000), '['); break;
    default: body = R"({"messages": 3, "prompt": {}, "content": [], "tokens": ["a"]})"; break;
    }
    expect(Socket(port_).ask(std::string("POST ") + kPaths[below(std::size(kPaths))], body), "400", "error");
  }

  void huge() {
    Json body = chat(false, 3);
    if (below(2) == 0) {
      body["n"] = below(2) == 0 ? 1e300 : 1e9;
      expect(Socket(port_).ask("POST /v1/chat/completions", body.dump()), "400", "\"n\"");
      return;
    }
    body["messages"][0]["content"] = std::string(20000, 'x');
    expect(Socket(port_).ask("POST /v1/chat/completions", body.dump()), "400", "maximum context length is 256");
  }

  void leave_at_once() { Socket(port_).abort(); }

  const int port_;
  Known& known_;
  std::mt19937_64 random_;
  int64_t wrong_ = 0;
};

} // namespace

TEST_CASE("very many requests, bad ones among them, leave nothing behind") {
  const char* const wanted = std::getenv("RIDGE_STRESS_REQUESTS");
  const int64_t requests = wanted ? std::atoll(wanted) : 3000, rehearsal = std::max<int64_t>(requests / 10, 600);
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const tests::TemporaryFolder folder;
  std::atomic<int64_t> warnings = 0;
  const engine::PrefixSettings prefixes = {kPrefixBytes, folder.path(), kFolderBytes, "a history",
                                           [&](const std::string& line) {
                                             MESSAGE(line);
                                             ++warnings;
                                           }};
  const tests::History::Settings settings = {.streams = kStreams, .context = 256, .recurrent = seed % 2 == 0};
  auto endpoint = std::make_unique<Endpoint>([&] { return tests::open_history(settings); }, "", nullptr, prefixes);
  engine::Scheduler& scheduler = endpoint->service.scheduler();
  std::vector<Socket> slow;
  for (const char* begun :
       {"", "POST", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"}) {
    slow.emplace_back(endpoint->server.port());
    REQUIRE(slow.back().send(begun));
  }
  std::atomic<int64_t> wrong = 0;
  Known known;
  const auto run = [&](int64_t count, uint64_t number) {
    std::atomic<int64_t> left = count;
    std::vector<std::thread> threads;
    for (int i = 0; i < kClients; ++i)
      threads.emplace_back([&, i] {
        Client client(*endpoint, known, seed + number * kClients + static_cast<uint64_t>(i));
        while (left-- > 0) client.ask();
        wrong += client.wrong();
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(tests::eventually("the requests of clients that have gone to end", [&] {
      const engine::Scheduler::Counts counts = scheduler.counts();
      return counts.running + counts.waiting == 0;
    }));
  };
  run(rehearsal, 0);
  const double bytes = resident_bytes();
  const int64_t files = open_files();
  run(requests - rehearsal, 1);
  CHECK(wrong == 0);
  CHECK(warnings == 0);
  CHECK(std::ranges::count(scheduler.positions(), -1) == kStreams);
  const engine::Scheduler::Counts counts = scheduler.counts();
  CHECK(counts.stored_bytes <= kPrefixBytes);
  CHECK(counts.disk_tokens > 0);
  const double grown = resident_bytes() - bytes;
  MESSAGE(requests, " requests; memory grew from ", bytes / 1048576, " MiB by ", grown / 1048576, " MiB");
#ifndef RIDGE_SANITIZED // sanitizers keep freed memory
  CHECK(grown < 48.0 * 1048576);
#endif
  CHECK(Json::parse(endpoint->get("/health"))["status"] == "ok");
  // Threads close them later.
  CHECK(tests::eventually("connections to be closed", [&] { return open_files() <= files + 2; }));
  slow.clear();
  endpoint.reset(); // ends everything, with file writes
  CHECK(folder_bytes(folder.path()) <= kFolderBytes);
}
