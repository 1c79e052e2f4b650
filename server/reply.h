// How routes answer: JSON at once, or a response that is written while it is generated.
#pragma once

#include "server/fields.h"
#include "server/http/message.h"
#include "server/requests/errors.h"

#include <functional>
#include <string>

namespace ridge::server {

void reply(HttpResponse& response, const Json& json, int status = 200);
void reply_error(HttpResponse& response, ErrorForm form, const ApiError& error);

// What a response that takes its time is written to.
class Client {
 public:
  explicit Client(HttpSink& sink) : sink_(sink) {}
  bool is_there() const { return sink_.is_there(); }
  bool write(const std::string& bytes) { return sink_.write(bytes); }
  // Server-sent; with a name where the API names its events.
  bool event(const Json& json, const std::string& name = {}) {
    return write((name.empty() ? "" : "event: " + name + "\n") + "data: " + to_text(json) + "\n\n");
  }

  bool line(const Json& json) { return write(to_text(json) + "\n"); } // of JSON lines, or the whole of a response

  static std::string to_text(const Json& json); // on one line

 private:
  HttpSink& sink_;
};

enum class Stream { none, events, lines }; // a response at once, server-sent events, or a line of JSON each

// `run` writes the response after the route has returned. If it throws, a stream, whose status 200 has been sent, ends
// with what went wrong. A response at once is then that error instead, of status 500.
void reply_later(HttpResponse& response, Stream stream, ErrorForm form, std::function<void(Client&)> run);

} // namespace ridge::server
