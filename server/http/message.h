// HTTP requests and responses, as routes see them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::server {

struct HttpRequest {
  std::string method;
  std::string path; // decoded, without the query
  std::string rest; // matched by the route's "*"
  std::vector<std::pair<std::string, std::string>> headers, parameters;
  std::string body;
  std::function<bool()> is_there = nullptr; // whether the client still waits

  // Header names ignore case.
  std::optional<std::string_view> header(std::string_view name) const;
  std::optional<std::string_view> parameter(std::string_view name) const;
};

class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // Sends the head with this status; otherwise the first write() does, with the response's. Later calls do nothing.
  virtual void begin(int status) = 0;
  // Blocks while the client takes nothing. Returns false if it has gone.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool is_there() const = 0;
};

struct HttpResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string content_type = "application/json", content;
  // Writes the content after the route has returned; false: incomplete.
  std::function<bool(HttpSink&)> write = nullptr;
  bool close = false;
};

} // namespace ridge::server
