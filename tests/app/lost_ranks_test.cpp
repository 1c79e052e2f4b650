// Ranks that are killed, or stop: the others name them and end, and a server answers with an error.
#include "app/support.h"
#include "support/http/socket.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

using namespace ridge::tests;

namespace {

// ridge serve as one of several ranks.
class ServingRank {
 public:
  ServingRank(int rank, int ranks, int master_port) : log_(folder() / ("lost-rank-" + std::to_string(rank))) {
    int out[2];
    REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(out[1], 1);
      ::dup2(::open(log_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 2);
      exec({"env", "RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(ranks),
            "MASTER_PORT=" + std::to_string(master_port), "RIDGE_RANK_TIMEOUT=900", "XDG_CACHE_HOME=" + folder().path(),
            RIDGE_BINARY, "serve", "--port", "0", "-m", tiny_model(), "--device", "cpu", "-t", "1"});
    }
    ::close(out[1]);
    out_ = out[0];
  }
  ~ServingRank() {
    ::close(out_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait_for(pid_);
  }
  ServingRank(const ServingRank&) = delete;

  // Waits until all ranks have joined, and returns the port on which rank 0 serves.
  int port() const {
    std::string line;
    for (char c; ::read(out_, &c, 1) == 1 && c != '\n';) line += c;
    REQUIRE(line.starts_with("http://127.0.0.1:"));
    return std::stoi(line.substr(line.rfind(':') + 1));
  }
  void signal(int number) const { ::kill(pid_, number); }
  int status() { return wait_for(std::exchange(pid_, 0)); }
  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

 private:
  const std::string log_;
  pid_t pid_ = 0;
  int out_ = -1;
};

const std::string kRequest = R"({"prompt": "on", "max_tokens": 2})";

} // namespace

TEST_CASE("a rank that is killed or hangs is named by the server's answer, and the other ranks end with its name") {
  for (const bool hangs : {false, true}) {
    CAPTURE(hangs);
    const int master = free_port() - 1; // ranks connect to the next one
    ServingRank one(1, 3, master), two(2, 3, master), zero(0, 3, master);
    const int port = zero.port();
    CHECK(Socket(port).ask("POST /v1/completions", kRequest).find("\"choices\"") != std::string::npos);
    one.signal(SIGSTOP); // the next request cannot end
    std::string answer;
    std::thread asking([&] { answer = Socket(port).ask("POST /v1/completions", kRequest); });
    while (!hangs && Socket(port).ask("GET /slots", "").find("\"is_processing\":true") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!hangs) one.signal(SIGKILL);
    asking.join();
    const std::string why = hangs ? "rank 1 has been silent for 7 s: it hangs, or is cut off" : "rank 1 is gone";
    CHECK_MESSAGE(answer.find(why) != std::string::npos, answer);
    for (ServingRank* rank : {&two, &zero}) {
      CHECK(rank->status() == 1);
      CHECK(rank->log().find("ridge: error: " + why + "\n") != std::string::npos);
    }
  }
}

TEST_CASE("when the first rank is killed the others name it, and when it ends they end well") {
  const int master = free_port() - 1;
  auto zero = std::make_unique<ServingRank>(0, 2, master);
  ServingRank one(1, 2, master);
  zero->port();
  zero->signal(SIGKILL);
  CHECK(one.status() == 1);
  CHECK(one.log().find("ridge: error: rank 0 is gone\n") != std::string::npos);

  ServingRank first(0, 2, master), second(1, 2, master);
  first.port();
  first.signal(SIGTERM);
  CHECK(first.status() == 0);
  CHECK(second.status() == 0);
}
