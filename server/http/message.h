// An HTTP request that has come whole, and the response to it, as routes see them.
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
  std::string path;                                                     // decoded, without the query
  std::string rest;                                                     // what the route's "*" stands for
  std::vector<std::pair<std::string, std::string>> headers, parameters; // the query's, decoded
  std::string body;

  // The first of that name; names of headers are compared without case.
  std::optional<std::string_view> header(std::string_view name) const;
  std::optional<std::string_view> parameter(std::string_view name) const;
};

// What the content of a response is written to while it is made.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // Sends the head, with this status. Without it the first write does so, with the response's own. Later calls change
  // nothing.
  virtual void begin(int status) = 0;
  // Waits while the client takes nothing. False: the client has gone.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool is_there() const = 0;
};

struct HttpResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string content_type = "application/json", content;
  // Writes the content instead, after the route has returned; false: it did not get to its end.
  std::function<bool(HttpSink&)> write = nullptr;
  bool close = false; // the connection takes no further request
};

} // namespace ridge::server
