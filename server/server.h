// The HTTP endpoint: listens, checks keys and limits, and hands requests to the routes.
#pragma once

#include "server/service.h"

#include <memory>
#include <string>

namespace ridge::server {

struct Settings {
  std::string host = "127.0.0.1";
  int port = 8080; // 0: a free one
  std::string key; // that requests must carry; empty: none
};

class Server {
 public:
  // Throws Error where it cannot listen there. The service must outlive the server.
  Server(Service& service, Settings settings);
  ~Server();

  int port() const { return port_; }
  void run();  // serves until stop(), then lets the requests end that it has
  void stop(); // from any thread

 private:
  struct Http;
  const Settings settings_;
  std::unique_ptr<Http> http_;
  int port_ = 0;
};

} // namespace ridge::server
