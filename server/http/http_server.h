// An HTTP/1.1 server for untrusted clients. One thread waits for all sockets, so that a connection without a
// request, a slow one, or one whose client reads slowly holds no thread. A request that has come whole is answered on a
// thread of workers.
#pragma once

#include "server/http/message.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ridge::server {

struct HttpLimits {
  using Seconds = std::chrono::duration<double>;

  int64_t head_bytes = 64 << 10;              // of a request: its line and its headers
  int64_t headers = 100;                      // of a request
  int64_t body_bytes = int64_t{32} << 20;     // of a request
  int64_t waiting_bytes = int64_t{512} << 20; // of all bodies that are not answered yet
  int64_t parsed_bytes = int64_t{64} << 20;   // of bodies that are being taken apart; one may have more
  Seconds head_time{10}, body_time{60};       // from the first byte of one to its last byte
  Seconds write_time{30};                     // that a client may take nothing of its response
  Seconds idle_time{75};                      // of a connection without a request
  int64_t pipelined = 64;                     // requests sent ahead, one after the other
  int64_t connections = 10'000, connections_per_address = 2'000;
};

// What a server does with requests. `check` and `refuse` are called on the thread of the network and must not wait.
struct HttpHandlers {
  // A request whose head has come and whose body was not read yet: a response refuses it.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> check;
  // Whether the request never waits for others, so that it is answered beside them.
  std::function<bool(const HttpRequest& request)> quick;
  // Called on a thread of workers. The body may be moved out. What it throws becomes a response of status 500.
  std::function<void(HttpRequest& request, HttpResponse& response)> answer;
  // The response to a request that is malformed or beyond a limit; of one that was not read at all the path is empty.
  std::function<HttpResponse(const HttpRequest& head, int status, const std::string& problem)> refuse;
};

class HttpServer {
 public:
  // Listens on all addresses of `host`. port 0: a free one. workers: requests that are answered at once; others wait in
  // the order in which they came. Throws Error where it cannot listen.
  HttpServer(const std::string& host, int port, int64_t workers, const HttpLimits& limits, HttpHandlers handlers);
  ~HttpServer();

  int port() const;
  void run();  // once; until stop() was called and the requests are answered that had come whole by then
  void stop(); // from any thread, also before run()

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

} // namespace ridge::server
