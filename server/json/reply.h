// Routes reply at once, or write a response during generation.
#pragma once

#include "server/http/message.h"
#include "server/json/errors.h"
#include "server/json/fields.h"

#include <functional>
#include <string>

namespace ridge::server {

void reply(HttpResponse& response, const Json& json, int status = 200);
void reply_error(HttpResponse& response, ErrorForm form, const ApiError& error);

class Client {
 public:
  explicit Client(HttpSink& sink) : sink_(sink) {}
  bool is_there() const { return sink_.is_there(); }
  bool write(const std::string& bytes) { return sink_.write(bytes); }
  // A server-sent event; it may have a name.
  bool event(const Json& json, const std::string& name = {}) {
    return write((name.empty() ? "" : "event: " + name + "\n") + "data: " + to_text(json) + "\n\n");
  }

  bool event_text(const std::string& json) { return write("data: " + json + "\n\n"); }

  bool line(const Json& json) { return write(to_text(json) + "\n"); } // a JSON line, or the whole response

  static std::string to_text(const Json& json);

 private:
  HttpSink& sink_;
};

enum class Stream { none, events, lines }; // none: one response at the end

// Calls `run` after the route has returned. If it throws, a stream (its status 200 is already sent) ends with the
// error. Without a stream the response is the error with status 500.
void reply_later(HttpResponse& response, Stream stream, ErrorForm form, std::function<void(Client&)> run);

} // namespace ridge::server
