// Hostile bodies of requests to every route that reads one, with the guide's template and tokenizer and an executor
// that costs nothing: each is either answered or refused with an error that the client is told.
#include "core/error.h"
#include "engine/options.h"
#include "server/api_error.h"
#include "server/routes.h"
#include "support/history_model.h"

#include <cstdint>
#include <functional>
#include <string>

using namespace ridge;

namespace {

const engine::Notice kSilent = [](const std::string&) {};

struct Server {
  engine::LoadedModel model = tests::open_history({.streams = 2, .context = 128});
  text::ChatTemplate chat_template = engine::choose_template({}, model.file, kSilent);
  server::Service service{model, chat_template, server::Json::object(), {}, "guide", kSilent};
  engine::Embedder embedder{engine::open_model("", {}, models::Ending::hidden), on_cpu(), {}};
  server::EmbeddingService embeddings{embedder, "guide", kSilent};

  static core::ModelOptions on_cpu() {
    core::ModelOptions options;
    options.device = "cpu";
    options.threads = 1;
    options.context = 16;
    return options;
  }
};

const std::function<void(server::Service&, const server::HttpRequest&, server::HttpResponse&)> kRoutes[] = {
    server::openai_chat,        server::openai_completion, server::openai_responses,
    server::anthropic_messages, server::ollama_chat,       server::anthropic_count_tokens,
    server::ollama_generate,    server::tokenize,          server::apply_template,
    server::detokenize,
};
const std::function<void(server::EmbeddingService&, const server::HttpRequest&, server::HttpResponse&)>
    kEmbeddingRoutes[] = {server::openai_embeddings, server::ollama_embed, server::ollama_embeddings};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Server server;
  if (size == 0) return 0;
  server::HttpRequest request;
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  server::HttpResponse response;
  try {
    if (const size_t route = data[0] % (std::size(kRoutes) + std::size(kEmbeddingRoutes)); route < std::size(kRoutes))
      kRoutes[route](server.service, request, response);
    else
      kEmbeddingRoutes[route - std::size(kRoutes)](server.embeddings, request, response);
  } catch (const server::ApiError&) {
    return 0;
  } catch (const Error&) {
    return 0;
  }
  if (!response.write) return 0;
  struct Sink final : server::HttpSink {
    bool write(std::string_view) override { return true; }
    bool is_there() const override { return true; }
  } sink;
  response.write(sink);
  return 0;
}
