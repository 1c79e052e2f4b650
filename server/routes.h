// The functions behind the routes of routes.def. They throw ApiError or Error; the server makes the answer of it.
#pragma once

#include "server/models/models.h"
#include "server/service.h"

#include <httplib.h>

namespace ridge::server {

#define RIDGE_ROUTE(method, path, name, form)                                                                          \
  void name(Service& service, const httplib::Request& request, httplib::Response& response);
#define RIDGE_SERVER_ROUTE(method, path, name, form)                                                                   \
  void name(const Models& models, const httplib::Request& request, httplib::Response& response);
#include "server/routes.def"
#undef RIDGE_ROUTE
#undef RIDGE_SERVER_ROUTE

} // namespace ridge::server
