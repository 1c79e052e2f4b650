// The HTTP endpoint: listens, checks keys and limits, and hands requests to the routes.
#pragma once

#include "server/models/models.h"

#include <atomic>
#include <memory>
#include <string>

namespace ridge::server {

struct Settings {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: a free one
  std::string key;  // that requests must carry; empty: none
  std::string cors; // the origin whose pages may read answers, or "*"; empty: none
};

class Server {
 public:
  // Throws Error where it cannot listen there. What it serves must outlive it.
  Server(Models& models, Settings settings);
  Server(ModelService& only, Settings settings);
  ~Server();

  int port() const { return port_; }
  void run();  // serves until stop(), then lets the requests end that it has; once
  void stop(); // from any thread

 private:
  struct Http;
  Server(std::unique_ptr<Models> own, Settings settings);
  void listen();

  const std::unique_ptr<Models> own_; // of a single service
  Models& models_;
  const Settings settings_;
  std::unique_ptr<Http> http_;
  int port_ = 0;
  std::atomic<bool> entered_ = false, left_ = false; // run()
  std::atomic<bool> stopping_ = false;               // stop() was called
};

} // namespace ridge::server
