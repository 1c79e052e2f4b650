// An HTTP/1.1 server for untrusted clients. One thread handles all sockets, so idle and slow connections hold no
// thread. Workers answer complete requests.
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

  int64_t head_bytes = 64 << 10; // including the request line
  int64_t headers = 100;
  int64_t body_bytes = int64_t{32} << 20;
  int64_t waiting_bytes = int64_t{512} << 20; // of all unanswered bodies
  int64_t parsed_bytes = int64_t{64} << 20;   // of bodies that are being parsed; a single one may exceed it
  Seconds head_time{10}, body_time{60};       // from the first to the last byte
  Seconds write_time{30};                     // without progress by the client
  Seconds idle_time{75};
  int64_t pipelined = 64;
  int64_t connections = 10'000, connections_per_address = 2'000;
};

// `check` and `refuse` run on the network thread and must not wait.
struct HttpHandlers {
  // Called before the body is read. A response refuses the request.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> check;
  // True for requests that never wait for others; separate workers answer them.
  std::function<bool(const HttpRequest& request)> quick;
  // Runs on a worker and may move the body out. Exceptions become status 500.
  std::function<void(HttpRequest& request, HttpResponse& response)> answer;
  // Makes the response to a malformed or excessive request. Its path may be empty.
  std::function<HttpResponse(const HttpRequest& head, int status, const std::string& problem)> refuse;
};

class HttpServer {
 public:
  // Listens on all addresses of `host`. port 0: a free one. workers: number of concurrent requests; others queue.
  // Throws Error if it cannot listen.
  HttpServer(const std::string& host, int port, int64_t workers, const HttpLimits& limits, HttpHandlers handlers);
  ~HttpServer();

  int port() const;
  void run();  // returns after stop(), when received requests are answered; call once
  void stop(); // from any thread, also before run()

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

} // namespace ridge::server
