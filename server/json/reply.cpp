#include "server/json/reply.h"

#include "text/json/kept_number.h"

#include <exception>
#include <utility>

namespace ridge::server {

// Invalid UTF-8 becomes U+FFFD.
std::string Client::to_text(const Json& json) { return text::json_text(json); }

void reply(HttpResponse& response, const Json& json, int status) {
  response.status = status;
  response.content = Client::to_text(json) + "\n";
}

void reply_error(HttpResponse& response, ErrorForm form, const ApiError& error) {
  response = {};
  reply(response, error_json(form, error), error.status);
}

namespace {

const char* content_type(Stream stream) {
  switch (stream) {
  case Stream::events: return "text/event-stream";
  case Stream::lines: return "application/x-ndjson";
  default: return "application/json";
  }
}

} // namespace

void reply_later(HttpResponse& response, Stream stream, ErrorForm form, std::function<void(Client&)> run) {
  response.status = 200;
  if (stream == Stream::events) response.headers.emplace_back("Cache-Control", "no-cache");
  response.content_type = content_type(stream);
  response.write = [stream, form, run = std::move(run)](HttpSink& sink) {
    Client client(sink);
    if (stream != Stream::none) sink.begin(200);
    try {
      run(client);
    } catch (const std::exception& error) {
      const Json json = error_json(form, ApiError(500, "server_error", error.what()));
      if (stream == Stream::events) return client.event(json, form == ErrorForm::anthropic ? "error" : "");
      if (stream == Stream::none) sink.begin(500);
      return client.line(json);
    }
    return true;
  };
}

} // namespace ridge::server
