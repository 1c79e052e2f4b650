// Request bodies for every route must give an answer or an error. The executor computes nothing.
#include "core/error.h"
#include "engine/options.h"
#include "server/json/api_error.h"
#include "server/routes.h"
#include "support/history_model.h"

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <type_traits>

using namespace ridge;

namespace {

const engine::Notice kSilent = [](const std::string&) {};

struct Server {
  engine::LoadedModel model = tests::open_history({.streams = 2, .context = 128});
  text::ChatTemplate chat_template = engine::choose_template({}, model.file, kSilent);
  server::Service service{model, chat_template, server::Json::object(), {}, "guide", kSilent};
  engine::Embedder embedder{engine::open_model("", {}, models::Ending::hidden), on_cpu(), {}};
  server::EmbeddingService embeddings{embedder, "guide", kSilent};
  server::Models models{service};

  static api::ModelOptions on_cpu() {
    api::ModelOptions options;
    options.device = "cpu";
    options.threads = 1;
    options.context = 16;
    return options;
  }
};

using Route = std::function<void(Server&, const server::HttpRequest&, server::HttpResponse&)>;

template <typename Takes>
Route route(void (*answer)(Takes&, const server::HttpRequest&, server::HttpResponse&)) {
  return [answer](Server& server, const server::HttpRequest& request, server::HttpResponse& response) {
    if constexpr (std::is_same_v<Takes, server::EmbeddingService>)
      answer(server.embeddings, request, response);
    else if constexpr (std::is_same_v<Takes, server::Models> || std::is_same_v<Takes, const server::Models>)
      answer(server.models, request, response);
    else
      answer(server.service, request, response);
  };
}

const Route kRoutes[] = {
#define RIDGE_ROUTE(method, path, name, Takes) route(server::name),
#include "server/routes.def"
#undef RIDGE_ROUTE
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Server server;
  if (size == 0) return 0;
  server::HttpRequest request;
  request.headers = {{"Content-Type", "multipart/form-data; boundary=x"}};
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  server::HttpResponse response;
  try {
    kRoutes[data[0] % std::size(kRoutes)](server, request, response);
  } catch (const server::ApiError&) {
    return 0;
  } catch (const Error&) {
    return 0;
  }
  if (!response.write) return 0;
  struct Sink final : server::HttpSink {
    void begin(int) override {}
    bool write(std::string_view) override { return true; }
    bool is_there() const override { return true; }
  } sink;
  response.write(sink);
  return 0;
}
