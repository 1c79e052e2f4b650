// The functions of routes.def. The server converts ApiError and Error that they throw to responses.
#pragma once

#include "server/http/message.h"
#include "server/json/api_error.h"
#include "server/models/embedding_service.h"
#include "server/models/models.h"
#include "server/models/rerank_service.h"
#include "server/models/service.h"

#include <type_traits>

namespace ridge::server {

inline const char* does(const ModelService& service) {
  if (dynamic_cast<const EmbeddingService*>(&service))
    return "only embeds texts; use it with /v1/embeddings, /api/embed and /api/embeddings";
  if (dynamic_cast<const RerankService*>(&service)) return "only scores texts; use it with /v1/rerank and /v1/score";
  return "generates text";
}

// Throws ApiError for another kind of model.
template <typename Takes>
Takes& service_as(ModelService& service) {
  Takes* const taken = dynamic_cast<Takes*>(&service);
  const char* wants = std::is_same_v<Takes, EmbeddingService> ? ": this needs an embedding model"
                      : std::is_same_v<Takes, RerankService>  ? ": this needs a reranker"
                                                              : "";
  if (!taken) throw_invalid("model", "the model {} {}{}", service.name(), does(service), wants);
  return *taken;
}

#define RIDGE_ROUTE(method, path, name, Takes)                                                                         \
  void name(Takes& served, const HttpRequest& request, HttpResponse& response);
#include "server/routes.def"
#undef RIDGE_ROUTE

} // namespace ridge::server
