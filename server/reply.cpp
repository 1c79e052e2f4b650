#include "server/reply.h"

#include <exception>
#include <utility>

namespace ridge::server {

// Text of models and clients is UTF-8 by then; what is not becomes U+FFFD instead of an exception.
std::string Client::to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void reply(httplib::Response& response, const Json& json, int status) {
  response.status = status;
  response.set_content(Client::to_text(json) + "\n", "application/json");
}

// httplib 0.11 has no way to say so. It closes a connection whose response could not be written to its end, so this one
// ends with a failure, behind its last byte.
void reply_and_close(const httplib::Request& request, httplib::Response& response, const Json& json, int status) {
  auto& changed = const_cast<httplib::Request&>(request);
  changed.headers.erase("Connection");
  changed.set_header("Connection", "close");            // from where httplib takes the response's
  if (request.method == "HEAD") changed.method = "GET"; // it would have no content that could fail
  response.status = status;
  std::string text = Client::to_text(json) + "\n";
  const size_t size = text.size();
  response.set_content_provider(size, "application/json",
                                [text = std::move(text)](size_t offset, size_t length, httplib::DataSink& sink) {
                                  sink.write(text.data() + offset, length);
                                  return false;
                                });
}

Json error_json(ErrorForm form, const std::string& type, const std::string& message, const std::string& parameter) {
  if (form == ErrorForm::anthropic)
    return {{"type", "error"},
            {"error", {{"type", type == "server_error" ? "api_error" : type}, {"message", message}}}};
  if (form == ErrorForm::ollama) return {{"error", message}};
  Json error = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (!parameter.empty()) error["param"] = parameter;
  return {{"error", std::move(error)}};
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

void reply_later(httplib::Response& response, Stream stream, ErrorForm form, std::function<void(Client&)> run) {
  response.status = 200;
  if (stream == Stream::events) response.set_header("Cache-Control", "no-cache");
  const auto provide = [stream, form, run = std::move(run)](size_t, httplib::DataSink& sink) {
    Client client(sink);
    try {
      run(client);
    } catch (const std::exception& error) {
      const Json json = error_json(form, "server_error", error.what());
      if (stream == Stream::none) return false;
      stream == Stream::lines ? client.line(json) : client.event(json, form == ErrorForm::anthropic ? "error" : "");
    }
    sink.done();
    return true;
  };
  response.set_chunked_content_provider(content_type(stream), provide);
}

} // namespace ridge::server
