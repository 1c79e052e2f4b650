// HTTP server without models.
#include "server/http/http_server.h"

#include "core/files/descriptors.h"
#include "support/http/client.h"
#include "support/http/patience.h"
#include "support/watchdog.h"

#include <atomic>
#include <condition_variable>
#include <malloc.h>
#include <mutex>
#include <new>
#include <poll.h>
#include <thread>

using namespace ridge;
using server::HttpLimits;
using server::HttpRequest;
using server::HttpResponse;
using tests::HttpClient;
using tests::HttpReply;
using tests::Socket;
using Seconds = HttpLimits::Seconds;

namespace {

// /echo returns the body, /wait blocks, /stream writes until the client leaves, /pieces streams three, /quick returns
// at once.
class Server {
 public:
  explicit Server(const HttpLimits& limits = {}, int64_t workers = 4)
      : server_("127.0.0.1", 0, workers, tests::patient(limits), handlers()), thread_([this] { server_.run(); }) {}
  ~Server() {
    open_gate();
    server_.stop();
    thread_.join();
  }
  int port() const { return server_.port(); }
  HttpClient client() const { return HttpClient(port()); }
  void open_gate() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for(const std::atomic<int>& count, int wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count >= wanted; });
  }
  std::atomic<int> waiting = 0, streams_left = 0;

 private:
  server::HttpHandlers handlers() {
    return {.check = [](const HttpRequest& head) -> std::optional<HttpResponse> {
              if (head.path != "/refused") return std::nullopt;
              return HttpResponse{.status = 403, .content = "refused"};
            },
            .quick = [](const HttpRequest& request) { return request.path == "/quick"; },
            .answer = [this](HttpRequest& request, HttpResponse& response) { answer(request, response); },
            .refuse = [](const HttpRequest&, int status,
                         const std::string& problem) { return HttpResponse{.status = status, .content = problem}; }};
  }
  void answer(HttpRequest& request, HttpResponse& response) {
    if (request.path == "/echo") response.content = request.body;
    if (request.path == "/quick") response.content = "quick";
    if (request.path == "/target")
      response.content = request.path + " " + std::string(request.parameter("a b").value_or("none"));
    if (request.path == "/no-memory") throw std::bad_alloc();
    if (request.path == "/pieces")
      response.write = [](server::HttpSink& sink) { return sink.write("one") && sink.write("two") && sink.write(""); };
    if (request.path == "/broken") response.write = [](server::HttpSink& sink) { return sink.write("half") && false; };
    if (request.path == "/stream")
      response.write = [this](server::HttpSink& sink) {
        while (sink.write(std::string(10000, 'x'))) {
        }
        count(streams_left);
        return false;
      };
    if (request.path == "/left")
      response.write = [this](server::HttpSink& sink) {
        sink.begin(200);
        while (sink.is_there()) std::this_thread::yield();
        count(streams_left);
        return true;
      };
    if (request.path == "/wait") {
      count(waiting);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return open_; });
    }
  }
  void count(std::atomic<int>& counter) {
    const std::scoped_lock lock(mutex_);
    ++counter;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  server::HttpServer server_;
  std::thread thread_;
};

const std::string kHost = " HTTP/1.1\r\nHost: localhost\r\n", kClose = "Connection: close\r\n\r\n";

std::string answers(const Server& server, const std::string& bytes) {
  Socket socket(server.port());
  socket.send(bytes);
  return socket.rest();
}

int64_t occurrences(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

} // namespace

TEST_CASE("requests sent ahead are answered in their order, also behind the end of the client's side") {
  const Server server;
  std::string sent;
  const auto body = [](int i) { return "body " + std::to_string(i) + "."; };
  for (int i = 0; i < 30; ++i)
    sent += "POST /echo" + kHost + "Content-Length: " + std::to_string(body(i).size()) + "\r\n\r\n" + body(i);
  Socket socket(server.port());
  socket.send(sent);
  socket.end_of_sending();
  const std::string answer = socket.rest();
  CHECK(occurrences(answer, "HTTP/1.1 200 OK\r\n") == 30);
  size_t at = 0;
  for (int i = 0; i < 30; ++i) {
    at = answer.find("\r\n\r\n" + body(i), at);
    REQUIRE(at != std::string::npos);
  }
  HttpClient client = server.client();
  for (int i = 0; i < 3; ++i) CHECK(client.post("/echo", "text").body == "text");
}

TEST_CASE("more requests sent ahead than the limit close the connection behind the last one that is answered") {
  const Server server({.pipelined = 4});
  std::string sent;
  for (int i = 0; i < 20; ++i) sent += "GET /quick" + kHost + "\r\n";
  const std::string answer = answers(server, sent);
  CHECK(occurrences(answer, "HTTP/1.1 200 OK\r\n") == 4);
  CHECK(occurrences(answer, "Connection: close\r\n") == 1);
}

TEST_CASE("a client of HTTP/1.0 gets no chunks, and one that asks for nothing more is not kept waiting") {
  const Server server;
  const std::string old = answers(server, "GET /pieces HTTP/1.0\r\n\r\n");
  CHECK(old.find("chunked") == std::string::npos);
  CHECK(body_of(old) == "onetwo");
  const std::string kept = "GET /quick HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  CHECK(occurrences(answers(server, kept + "GET /quick HTTP/1.0\r\n\r\n"), "200 OK") == 2);
  const HttpReply now = server.client().get("/pieces");
  CHECK(now.header("Transfer-Encoding") == "chunked");
  CHECK((now.whole && now.body == "onetwo"));
  CHECK(!server.client().get("/broken").whole);
}

TEST_CASE("headers that ask for a part or for another encoding of an answer change nothing about it") {
  const Server server;
  const std::string body(800'000, 'b');
  std::string many = "bytes=";
  for (int i = 0; i < 2700; ++i) many += "0-,";
  for (const tests::HttpHeaders& headers :
       {tests::HttpHeaders{{"Range", many + "0-"}}, tests::HttpHeaders{{"Range", "bytes=0-3"}},
        tests::HttpHeaders{{"Accept-Encoding", "gzip;q=0"}}, tests::HttpHeaders{{"Accept-Encoding", "gzip, br"}}}) {
    const HttpReply reply = server.client().post("/echo", body, headers);
    CHECK(reply.status == 200);
    CHECK(reply.header("Content-Encoding").empty());
    CHECK(reply.body == body);
  }
}

TEST_CASE("heads beyond the limits are refused before they take memory") {
  const Server server({.head_bytes = 4096, .headers = 10});
  const auto status = [&](const std::string& bytes) { return answers(server, bytes).substr(0, 12); };
  CHECK(status("GET /quick" + kHost + "A: " + std::string(5000, 'a') + "\r\n\r\n") == "HTTP/1.1 431");
  CHECK(status("GET /" + std::string(5000, 'a') + kHost + "\r\n") == "HTTP/1.1 431");
  CHECK(status(std::string(5000, 'G')) == "HTTP/1.1 431");
  std::string headers;
  for (int i = 0; i < 10; ++i) headers += "H" + std::to_string(i) + ": v\r\n";
  CHECK(status("GET /quick" + kHost + headers + "\r\n") == "HTTP/1.1 431");
  Socket socket(server.port());
  socket.send("GET /quick" + kHost);
  const std::string header = "Name: " + std::string(65536, 'v') + "\r\n";
  // The server discards this much, so that the refusal is readable.
  const int64_t most = (16 << 20) + tests::bytes_between_sides();
  int64_t sent = 0;
  while (sent < 2 * most && socket.send(header)) sent += std::ssize(header);
  CHECK(sent <= most + std::ssize(header));
  CHECK(server.client().get("/quick").status == 200);
}

TEST_CASE("malformed requests are refused, and the connection closed") {
  const Server server;
  for (const std::string& bytes :
       {std::string("GET\r\n\r\n"), std::string("GET /quick HTTP/1.1\r\n\r\n"), std::string("\0\1\2\r\n\r\n", 7),
        "GET /quick" + kHost + "Host: other\r\n\r\n", "GET quick" + kHost + "\r\n",
        "GET /quick" + kHost + "no colon\r\n\r\n", "POST /echo" + kHost + "Transfer-Encoding: chunked\r\n\r\nx\r\n",
        "POST /echo" + kHost + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"}) {
    CAPTURE(bytes);
    const std::string answer = answers(server, bytes + "GET /quick" + kHost + "\r\n");
    CHECK(answer.starts_with("HTTP/1.1 4"));
    CHECK(occurrences(answer, "HTTP/1.1 ") == 1);
  }
  CHECK(answers(server, "PRI * HTTP/2.0\r\n\r\n").starts_with("HTTP/1.1 505"));
}

TEST_CASE("a target is decoded, and may name the host") {
  const Server server;
  HttpClient client = server.client();
  CHECK(client.get("/t%61rget?x=1&a+b=c%20d%").body == "/target c d%");
  CHECK(client.get("http://localhost/target?a%20b#end").body == "/target ");
  CHECK(client.get("/target").body == "/target none");
}

TEST_CASE("a request must come whole in its time, however steadily its bytes come") {
  const Server server({.head_time = Seconds(0.3), .body_time = Seconds(0.3)});
  for (const std::string& begin :
       {std::string("GET /quick"), "POST /echo" + kHost + "Content-Length: 100000\r\n\r\n"}) {
    Socket socket(server.port());
    REQUIRE(socket.send(begin));
    pollfd answer = {socket.descriptor(), POLLIN, 0};
    while (::poll(&answer, 1, 10) == 0) socket.send("x");
    socket.end_of_sending();
    CHECK(socket.rest().starts_with("HTTP/1.1 408"));
  }
}

TEST_CASE("an idle connection is closed after its time, and earlier where another one needs its place") {
  {
    const Server server({.idle_time = Seconds(0.2)});
    Socket never(server.port());
    CHECK(never.rest().empty());
    std::string answer; // there is none if the request comes later
    while (answer.empty()) answer = answers(server, "GET /quick" + kHost + "\r\n");
    CHECK(answer.ends_with("quick"));
  }
  const Server server({.connections = 3});
  Socket first(server.port()), second(server.port()), third(server.port());
  CHECK(answers(server, "GET /quick" + kHost + kClose).ends_with("quick"));
  CHECK(first.rest().empty());
}

TEST_CASE("an address has its number of connections, and no more") {
  const Server server({.connections_per_address = 2});
  HttpClient first = server.client(), second = server.client();
  CHECK(first.get("/quick").status == 200);
  CHECK(second.get("/quick").status == 200);
  CHECK(answers(server, "").starts_with("HTTP/1.1 503"));
  CHECK(first.get("/quick").status == 200);
}

TEST_CASE("slow, idle and waiting clients leave the others undisturbed") {
  Server server({}, 2);
  // Descriptors: both ends are in this process.
  const int64_t clients = std::min<int64_t>(100, core::raise_descriptor_limit() / 8);
  std::vector<Socket> idle, slow, busy;
  for (int64_t i = 0; i < clients; ++i) {
    idle.emplace_back(server.port());
    slow.emplace_back(server.port());
    slow.back().send("POST /echo HTTP/1.1\r\nHost: local");
    busy.emplace_back(server.port());
    busy.back().send("GET /wait" + kHost + kClose);
  }
  server.wait_for(server.waiting, 2);
  CHECK(server.client().get("/quick").body == "quick");
  server.open_gate();
  for (Socket& socket : busy) CHECK(socket.rest().starts_with("HTTP/1.1 200"));
  for (Socket& socket : slow) {
    socket.send("host\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab");
    CHECK(socket.rest().ends_with("\r\n\r\nab"));
  }
}

TEST_CASE("a client that reads nothing, and one that has left, end what is written to them") {
  Server server({.write_time = Seconds(0.2)});
  Socket unread(server.port());
  unread.send("GET /stream" + kHost + "\r\n");
  Socket left(server.port());
  left.send("GET /left" + kHost + "\r\n");
  left.wait_for_byte();
  left.end_of_sending();
  Socket aborted(server.port());
  aborted.send("GET /stream" + kHost + "\r\n");
  aborted.wait_for_byte();
  aborted.abort();
  server.wait_for(server.streams_left, 3);
  CHECK(server.streams_left == 3);
}

TEST_CASE("bodies that wait take memory up to a limit") {
  const Server server({.body_bytes = 1 << 20, .waiting_bytes = 3 << 20});
  std::vector<Socket> waiting;
  std::vector<pollfd> answered;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back(server.port());
    waiting.back().send("POST /echo" + kHost + "Content-Length: 1048576\r\n\r\n" + std::string((1 << 20) - 1, ' '));
    answered.push_back({waiting.back().descriptor(), POLLIN, 0});
  }
  REQUIRE(::poll(answered.data(), answered.size(), -1) > 0);
  for (size_t i = 0; i < answered.size(); ++i)
    if (answered[i].revents != 0) CHECK(waiting[i].rest().starts_with("HTTP/1.1 503"));
  for (Socket& socket : waiting) socket.close();
  HttpReply reply;
  while (reply.status != 200) reply = server.client().post("/echo", "again");
  CHECK(server.client().post("/echo", std::string((1 << 20) + 1, ' ')).status == 413);
}

TEST_CASE("an idle connection keeps nothing of its requests") {
  const Server server;
  const auto used = [] {
    const struct mallinfo2 info = ::mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
  };
  CHECK(server.client().post("/echo", "text").body == "text");
  const double before = used();
  std::vector<HttpClient> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(server.client());
    CHECK(idle.back().post("/target", std::string(4 << 20, 'x'), {{"Name", std::string(50'000, 'v')}}).status == 200);
  }
  // A worker releases its memory after the answer.
  CHECK(tests::eventually("the memory to be given back", [&] { return used() < before + 1e6; }));
}

TEST_CASE("clients that have sent half of a request do not keep the server from stopping") {
  const tests::Guard guard("a server to stop that gives a request more time than this");
  auto server = std::make_unique<Server>();
  std::vector<Socket> half;
  for (const std::string& begun : {std::string(), std::string("GET /qu"), "POST /echo" + kHost,
                                   "POST /echo" + kHost + "Content-Length: 10\r\n\r\n{"}) {
    half.emplace_back(server->port());
    REQUIRE(half.back().send(begun));
  }
  CHECK(server->client().get("/quick").status == 200); // after the others have arrived
  server.reset();
  for (Socket& socket : half) CHECK(socket.rest().empty());
}

TEST_CASE("a client that asks before it sends its body is told to go on, or refused") {
  const Server server;
  Socket socket(server.port());
  socket.send("POST /echo" + kHost + "Expect: 100-continue\r\nContent-Length: 4\r\n" + kClose);
  REQUIRE(socket.wait_for_byte());
  socket.send("body");
  const std::string answer = "H" + socket.rest();
  CHECK(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
  CHECK(answer.ends_with("\r\n\r\nbody"));
  CHECK(answers(server, "POST /refused" + kHost + "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
            .starts_with("HTTP/1.1 403"));
}

TEST_CASE("an answer that finds no memory is an error, and the server goes on") {
  const Server server;
  HttpClient client = server.client();
  CHECK(client.get("/no-memory").status == 500);
  CHECK(client.get("/quick").status == 200);
  CHECK(client.ask("HEAD", "/quick").header("Content-Length") == "5");
  CHECK(client.get("/quick").body == "quick");
}
