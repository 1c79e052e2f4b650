// How routes answer: JSON at once, or a response that is written while it is generated.
#pragma once

#include "server/fields.h"

#include <httplib.h>

#include <functional>
#include <string>

namespace ridge::server {

void reply(httplib::Response& response, const Json& json, int status = 200);
// For a request whose body, or the rest of it, nobody reads: what comes of it would be taken for the next request.
void reply_and_close(const httplib::Request& request, httplib::Response& response, const Json& json, int status);

// How an API writes errors.
enum class ErrorForm { openai, anthropic, ollama };
Json error_json(ErrorForm form, const std::string& type, const std::string& message, const std::string& parameter = {});

// What a response that takes its time is written to.
class Client {
 public:
  explicit Client(httplib::DataSink& sink) : sink_(sink) {}
  bool is_there() const { return sink_.is_writable(); }
  bool write(const std::string& bytes) { return sink_.write(bytes.data(), bytes.size()); }
  // Server-sent; with a name where the API names its events.
  bool event(const Json& json, const std::string& name = {}) {
    return write((name.empty() ? "" : "event: " + name + "\n") + "data: " + to_text(json) + "\n\n");
  }

  bool line(const Json& json) { return write(to_text(json) + "\n"); } // of JSON lines, or the whole of a response

  static std::string to_text(const Json& json); // on one line

 private:
  httplib::DataSink& sink_;
};

enum class Stream { none, events, lines }; // a response at once, server-sent events, or a line of JSON each

// `run` writes the response, of status 200, after the route has returned. If it throws, a stream ends with what went
// wrong, and any other response ends without being whole.
void reply_later(httplib::Response& response, Stream stream, ErrorForm form, std::function<void(Client&)> run);

} // namespace ridge::server
