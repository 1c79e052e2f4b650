// ridge serve as a person starts and stops it.
#include "support/process.h"
#include "support/temporary_folder.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fstream>
#include <netinet/in.h>
#include <sys/socket.h>

using namespace ridge;

namespace {

class Served {
 public:
  explicit Served(std::vector<std::string> args) {
    args.insert(args.begin(), {RIDGE_BINARY, "serve", "--port", "0"});
    int out[2];
    REQUIRE(::pipe(out) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(out[1], 1);
      ::dup2(::open("/dev/null", O_WRONLY), 2);
      tests::exec(args);
    }
    ::close(out[1]);
    std::string line;
    for (char c; ::read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(out[0]);
    REQUIRE(line.starts_with("http://127.0.0.1:"));
    port_ = static_cast<uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  }
  ~Served() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    tests::wait_for(pid_);
  }

  void signal(int number) const { ::kill(pid_, number); }
  int status() { return tests::wait_for(std::exchange(pid_, 0)); }

  int connect() const {
    const int socket = try_to_connect();
    REQUIRE(socket >= 0);
    return socket;
  }
  bool accepts() const {
    const int socket = try_to_connect();
    if (socket >= 0) ::close(socket);
    return socket >= 0;
  }
  // The whole response to a request.
  std::string ask(const std::string& head, const std::string& body = "") const {
    const int socket = connect();
    send(socket, head, body);
    const std::string response = rest(socket);
    ::close(socket);
    return response;
  }
  static void send(int socket, const std::string& head, const std::string& body) {
    const std::string text =
        head + " HTTP/1.1\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    REQUIRE(::send(socket, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
  static std::string rest(int socket) {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(socket, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
    return text;
  }

 private:
  int try_to_connect() const { // -1: nobody listens
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return socket;
    ::close(socket);
    return -1;
  }

  pid_t pid_ = 0;
  uint16_t port_ = 0;
};

const std::string kLong = R"({"messages": [{"role": "user", "content": "What is ridge?"}], "temperature": 0,
                              "max_tokens": 30, "stream": true})";

} // namespace

TEST_CASE("ridge serve serves the guide, and lets a request end when it is told to stop") {
  Served served({"--device", "cpu"});
  CHECK(served.ask("GET /v1/models").find("\"id\":\"guide\"") != std::string::npos);
  const int socket = served.connect();
  Served::send(socket, "POST /v1/chat/completions", kLong);
  char first = 0;
  REQUIRE(::read(socket, &first, 1) == 1); // it is being answered
  served.signal(SIGTERM);
  CHECK(Served::rest(socket).find("data: [DONE]") != std::string::npos);
  ::close(socket);
  CHECK(served.status() == 0);
}

TEST_CASE("a second signal ends ridge serve at once") {
  Served served({"--device", "cpu", "--ignore-eos", "-c", "100000"});
  const int socket = served.connect();
  Served::send(socket, "POST /v1/completions", R"({"prompt": "ridge", "max_tokens": 90000, "stream": true})");
  char first = 0;
  REQUIRE(::read(socket, &first, 1) == 1);
  served.signal(SIGINT);
  while (served.accepts()) ::usleep(1000); // signals of one kind do not queue: the first must have been taken
  served.signal(SIGINT);
  CHECK(served.status() == 130);
  ::close(socket);
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
  CHECK(refused.err.find("expected one line with the key") != std::string::npos);
}
