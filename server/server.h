// Checks whether clients may ask, and calls the routes.
#pragma once

#include "server/http/access.h"
#include "server/http/http_server.h"
#include "server/json/api_error.h"
#include "server/models/models.h"

#include <memory>
#include <string>

namespace ridge::server {

struct Settings {
  std::string host = "127.0.0.1";
  int port = 8080; // 0: a free one
  std::string key;
  AccessRules access = {};
  HttpLimits limits = {};
  bool page = true;
};

class Server {
 public:
  // Throws Error if it cannot listen.
  Server(Models& models, Settings settings);
  Server(ModelService& only, Settings settings);
  ~Server();

  int port() const;
  std::string address() const; // "http://127.0.0.1:8080", "http://[::1]:8080"
  void run();                  // returns after stop(), when received requests are answered; call once
  void stop();                 // from any thread

 private:
  Server(std::unique_ptr<Models> own, Settings settings);
  HttpHandlers handlers();
  std::optional<HttpResponse> check(const HttpRequest& head) const;
  HttpResponse refuse(const HttpRequest& head, const ApiError& error) const;
  void add_cors(HttpResponse& response) const;
  bool gets_page(const HttpRequest& head) const;
  bool asks_whether(const HttpRequest& head) const; // CORS preflight
  void answer(HttpRequest& request, HttpResponse& response);

  const std::unique_ptr<Models> own_;
  Models& models_;
  const Settings settings_;
  HttpServer http_;
};

} // namespace ridge::server
