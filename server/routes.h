// The functions behind the routes of routes.def. They throw ApiError or Error; the server makes the answer of it.
#pragma once

#include "server/api_error.h"
#include "server/embeddings/embedding_service.h"
#include "server/http/message.h"
#include "server/models/models.h"
#include "server/service.h"

#include <type_traits>

namespace ridge::server {

// The service as the kind that a route takes. Throws ApiError for a model of another kind.
template <typename Takes>
Takes& service_as(ModelService& service) {
  Takes* const taken = dynamic_cast<Takes*>(&service);
  if (!taken)
    throw_invalid("model", "the model {} {}", service.name(),
                  std::is_same_v<Takes, EmbeddingService>
                      ? "writes texts and embeds none: this needs an embedding model"
                      : "embeds texts and writes none: it answers /v1/embeddings, /api/embed and /api/embeddings");
  return *taken;
}

#define RIDGE_ROUTE(method, path, name, Takes)                                                                         \
  void name(Takes& served, const HttpRequest& request, HttpResponse& response);
#include "server/routes.def"
#undef RIDGE_ROUTE

} // namespace ridge::server
