// Hostile bodies of requests to every route that reads one, with the guide's template and tokenizer and an executor
// that costs nothing: each is either answered or refused with an error that the client is told.
#include "core/error.h"
#include "server/api_error.h"
#include "server/routes.h"
#include "support/endpoint.h"

#include <cstdint>
#include <string>

using namespace ridge;

namespace {

struct Server {
  engine::LoadedModel model = tests::open_history({.streams = 2, .context = 128});
  text::ChatTemplate chat_template = engine::choose_template({}, model.file, [](const std::string&) {});
  server::Service service{model, chat_template, server::Json::object(), {}, "guide", [](const std::string&) {}};
};

using Route = void (*)(server::Service&, const httplib::Request&, httplib::Response&);
const Route kRoutes[] = {
    server::openai_chat,        server::openai_completion, server::openai_responses,
    server::anthropic_messages, server::ollama_chat,       server::anthropic_count_tokens,
    server::ollama_generate,    server::tokenize,          server::apply_template,
    server::detokenize,
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Server server;
  if (size == 0) return 0;
  httplib::Request request;
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  httplib::Response response;
  try {
    kRoutes[data[0] % std::size(kRoutes)](server.service, request, response);
  } catch (const server::ApiError&) {
    return 0;
  } catch (const Error&) {
    return 0;
  }
  if (!response.content_provider_) return 0;
  httplib::DataSink sink;
  sink.write = [](const char*, size_t) { return true; };
  sink.is_writable = [] { return true; };
  sink.done = [] {};
  response.content_provider_(0, 0, sink);
  return 0;
}
