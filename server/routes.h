// The functions behind the routes of routes.def. They throw ApiError or Error; the server makes the answer of it.
#pragma once

#include "server/embeddings/embedding_service.h"
#include "server/http/message.h"
#include "server/models/models.h"
#include "server/service.h"

namespace ridge::server {

#define RIDGE_ROUTE(method, path, name, form, Takes)                                                                   \
  void name(Takes& served, const HttpRequest& request, HttpResponse& response);
#include "server/routes.def"
#undef RIDGE_ROUTE

} // namespace ridge::server
