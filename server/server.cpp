#include "server/server.h"

#include "core/error.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/page/page.h"
#include "server/requests/form.h"
#include "server/routes.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <optional>
#include <string_view>
#include <strings.h>
#include <type_traits>
#include <utility>

namespace ridge::server {
namespace {

constexpr const char* kInvalid = "invalid_request_error";
constexpr int64_t kWaitingRequests = 64; // in addition to one per stream; further requests hold no thread

// Takes the same time for all keys of a length.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (size_t i = 0; i < b.size(); ++i) difference |= static_cast<unsigned>((i < a.size() ? a[i] : 0) ^ b[i]);
  return difference == 0;
}

bool has_key(const HttpRequest& request, const std::string& key) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.header("Authorization").value_or("");
  if (authorization.starts_with(kBearer) && equal_in_constant_time(authorization.substr(kBearer.size()), key))
    return true;
  return equal_in_constant_time(request.header("x-api-key").value_or(""), key);
}

// Called before the body is read.
void check_body(const HttpRequest& head) {
  const auto refuse = [](int status, const char* problem) { throw ApiError(status, kInvalid, problem); };
  for (const auto& [name, value] : head.headers)
    if (strcasecmp(name.c_str(), "Content-Encoding") == 0 && !value.empty() &&
        strcasecmp(value.c_str(), "identity") != 0)
      refuse(415, "Content-Encoding: compressed bodies are not supported; send the body uncompressed");
  const auto encoding = head.header("Transfer-Encoding"), length = head.header("Content-Length");
  if (encoding && strcasecmp(std::string(*encoding).c_str(), "chunked") != 0)
    refuse(411, "Transfer-Encoding: only chunked is supported; send the body with its Content-Length");
  const bool bodiless = head.method == "GET" || head.method == "HEAD" || head.method == "OPTIONS";
  if (bodiless && (encoding || (length && length->find_first_not_of('0') != std::string_view::npos)))
    refuse(400, "Content-Length: this method has no body; send the request without one, or as a POST");
  if (!bodiless && head.method != "DELETE" && !encoding && !length)
    refuse(411, "Content-Length is missing; send it with the body (0 without a body)");
}

// Null: the request names none, or there is only one.
std::optional<std::string> model_wanted(const Models& models, const HttpRequest& request) {
  if (!models.several()) return std::nullopt;
  const bool is_list = request.body.starts_with('[');
  if (request.method != "POST" || is_list) return std::optional<std::string>(request.parameter("model"));
  if (has_form(request)) return std::optional<std::string>(field_of(read_form(request), "model"));
  const Json body = parse_body(request.body);
  return Fields(body, "").text("model");
}

template <typename Takes>
void with(Models& models, const HttpRequest& request, const std::function<void(Takes&)>& route) {
  if constexpr (std::is_same_v<std::remove_const_t<Takes>, Models>) {
    route(models);
  } else {
    models.with(model_wanted(models, request), request.is_there,
                [&](ModelService& service) { route(service_as<Takes>(service)); });
  }
}

struct Route {
  const char* method;
  std::string_view path; // "*" at the end matches the rest
  bool quick;
  std::function<void(Models&, const HttpRequest&, HttpResponse&)> answer;
};

const Route kRoutes[] = {
#define RIDGE_ROUTE(method, path, name, Takes)                                                                         \
  {#method, path, std::is_same_v<Takes, const Models>,                                                                 \
   [](Models& models, const HttpRequest& request, HttpResponse& response) {                                            \
     with<Takes>(models, request, [&](Takes& served) { name(served, request, response); });                            \
   }},
#include "server/routes.def"
#undef RIDGE_ROUTE
};

bool has_path(const Route& route, std::string_view path) {
  if (!route.path.ends_with('*')) return path == route.path;
  const std::string_view begin = route.path.substr(0, route.path.size() - 1);
  return path.starts_with(begin) && path.size() > begin.size();
}

bool has_method(const Route& route, const std::string& method) {
  return strcasecmp(route.method, method == "HEAD" ? "GET" : method.c_str()) == 0;
}

// The page needs no key: it has no data, and its requests are checked.
void reply_with_page(HttpResponse& response) {
  const Page& page = chat_page();
  response.content = page.content;
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Content-Security-Policy", page.policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"Vary", "Accept"}};
}

// Prefers a route with the method. Another one counts only if it matches without "*".
const Route* find_route(const HttpRequest& request) {
  const Route* other = nullptr;
  for (const Route& route : kRoutes)
    if (has_path(route, request.path)) {
      if (has_method(route, request.method)) return &route;
      if (!other && !route.path.ends_with('*')) other = &route;
    }
  return other;
}

} // namespace

Server::Server(Models& models, Settings settings)
    : models_(models), settings_(std::move(settings)),
      http_(settings_.host, settings_.port, models_.parallel() + kWaitingRequests, settings_.limits, handlers()) {}

Server::Server(std::unique_ptr<Models> own, Settings settings)
    : own_(std::move(own)), models_(*own_), settings_(std::move(settings)),
      http_(settings_.host, settings_.port, models_.parallel() + kWaitingRequests, settings_.limits, handlers()) {}

Server::Server(ModelService& only, Settings settings) : Server(std::make_unique<Models>(only), std::move(settings)) {}

Server::~Server() = default;

int Server::port() const { return http_.port(); }

std::string Server::address() const {
  const bool ipv6 = settings_.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", ipv6 ? "[" : "", settings_.host, ipv6 ? "]" : "", port());
}

void Server::run() { http_.run(); }

void Server::stop() {
  models_.stop();
  http_.stop();
}

HttpHandlers Server::handlers() {
  return {.check = [this](const HttpRequest& head) { return check(head); },
          .quick =
              [](const HttpRequest& request) {
                const Route* const route = find_route(request);
                return !route || route->quick;
              },
          .answer = [this](HttpRequest& request, HttpResponse& response) { answer(request, response); },
          .refuse =
              [this](const HttpRequest& head, int status, const std::string& problem) {
                return refuse(head, {status, status < 500 || status == 505 ? kInvalid : "server_error", problem});
              }};
}

HttpResponse Server::refuse(const HttpRequest& head, const ApiError& error) const {
  HttpResponse response;
  reply_error(response, form_of(head), error);
  add_cors(response);
  return response;
}

void Server::add_cors(HttpResponse& response) const {
  if (!settings_.access.cors.empty())
    response.headers.emplace_back("Access-Control-Allow-Origin", settings_.access.cors);
}

bool Server::gets_page(const HttpRequest& head) const {
  return settings_.page && head.path == "/" && (head.method == "GET" || head.method == "HEAD") &&
         head.header("Accept").value_or("").find("text/html") != std::string_view::npos;
}

bool Server::asks_whether(const HttpRequest& head) const {
  return head.method == "OPTIONS" && !settings_.access.cors.empty();
}

std::optional<HttpResponse> Server::check(const HttpRequest& head) const {
  const auto refused = [&](int status, const char* type, const std::string& problem, const char* code = "") {
    return refuse(head, {status, type, problem, {}, code});
  };
  try {
    check_body(head);
  } catch (const ApiError& error) {
    HttpResponse response = refuse(head, error);
    response.close = true; // the end of its body is unknown
    return response;
  }
  if (asks_whether(head)) return std::nullopt;
  if (head.path != "/health" && !gets_page(head)) {
    if (!settings_.key.empty() && !has_key(head, settings_.key))
      return refused(401, "authentication_error", "the API key is missing or wrong", "invalid_api_key");
    if (const std::string why = settings_.key.empty() ? refusal_of(head, settings_.access) : ""; !why.empty())
      return refused(403, "permission_error", why);
  }
  if (!find_route(head)) return refused(404, kInvalid, fmt::format("no route {} {}", head.method, head.path));
  return std::nullopt;
}

// On a worker thread.
void Server::answer(HttpRequest& request, HttpResponse& response) {
  if (asks_whether(request)) {
    response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                        {"Access-Control-Allow-Headers", "*, Authorization"}};
    response.status = 204;
    return add_cors(response);
  }
  if (gets_page(request)) return reply_with_page(response);
  const Route& route = *find_route(request);
  try {
    if (!has_method(route, request.method))
      throw ApiError(405, kInvalid,
                     fmt::format("{} {}: this path does not support the method", request.method, request.path));
    if (route.path.ends_with('*')) request.rest = request.path.substr(route.path.size() - 1);
    route.answer(models_, request, response);
  } catch (const std::exception& thrown) {
    const ApiError error = to_api_error(thrown);
    if (error.status == 500 && !dynamic_cast<const ApiError*>(&thrown))
      models_.log(fmt::format("{} {}: internal error: {}", request.method, request.path, thrown.what()));
    reply_error(response, form_of(request), error);
  }
  add_cors(response);
}

} // namespace ridge::server
