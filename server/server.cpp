#include "server/server.h"

#include "core/error.h"
#include "server/api_error.h"
#include "server/reply.h"
#include "server/routes.h"

#include <exception>
#include <string_view>
#include <utility>

namespace ridge::server {
namespace {

constexpr size_t kMostBytes = size_t{32} << 20;          // of a request's body
constexpr int kSecondsToRead = 10, kSecondsToWrite = 30; // that a client may leave us waiting
constexpr int kSecondsKept = 5, kRequestsKept = 1000;    // a connection without a request, and with
constexpr size_t kIdleConnections = 64;                  // threads beside one per stream

// Takes as long for every key of the right length.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (size_t i = 0; i < b.size(); ++i) difference |= static_cast<unsigned>((i < a.size() ? a[i] : 0) ^ b[i]);
  return difference == 0;
}

bool has_key(const httplib::Request& request, const std::string& key) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string authorization = request.get_header_value("Authorization");
  if (authorization.starts_with(kBearer) &&
      equal_in_constant_time(std::string_view(authorization).substr(kBearer.size()), key))
    return true;
  return equal_in_constant_time(request.get_header_value("x-api-key"), key);
}

void reply_error(httplib::Response& response, int status, const std::string& type, const std::string& message,
                 const std::string& parameter = {}) {
  Json error = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (!parameter.empty()) error["param"] = parameter;
  reply(response, {{"error", std::move(error)}}, status);
}

using Route = void (*)(Service&, const httplib::Request&, httplib::Response&);

void serve(Route route, Service& service, const httplib::Request& request, httplib::Response& response) {
  try {
    route(service, request, response);
  } catch (const ApiError& error) {
    reply_error(response, error.status, error.type, error.what(), error.parameter);
  } catch (const Error& error) { // of the engine: a prompt that does not fit, a template that refuses
    reply_error(response, 400, "invalid_request_error", error.what());
  } catch (const std::exception& error) {
    service.log(fmt::format("{} {}: internal error: {}", request.method, request.path, error.what()));
    reply_error(response, 500, "server_error", "internal error");
  }
}

std::string status_text(int status) {
  switch (status) {
  case 404: return "there is no such route";
  case 413: return fmt::format("the body has more than {} MiB", kMostBytes >> 20);
  default: return "the request is malformed";
  }
}

} // namespace

struct Server::Http {
  httplib::Server server;
};

Server::Server(Service& service, Settings settings) : settings_(std::move(settings)), http_(std::make_unique<Http>()) {
  httplib::Server& server = http_->server;
  const size_t threads = static_cast<size_t>(service.model().executor->config().streams) + kIdleConnections;
  server.new_task_queue = [threads] { return new httplib::ThreadPool(threads); }; // httplib deletes it
  server.set_payload_max_length(kMostBytes);
  server.set_read_timeout(kSecondsToRead);
  server.set_write_timeout(kSecondsToWrite);
  server.set_keep_alive_timeout(kSecondsKept);
  server.set_keep_alive_max_count(kRequestsKept);
  server.set_tcp_nodelay(true);
  server.set_socket_options([](socket_t socket) { // httplib's own would let two servers share a port
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    using Handled = httplib::Server::HandlerResponse;
    if (settings_.key.empty() || request.path == "/health" || has_key(request, settings_.key))
      return Handled::Unhandled;
    reply_error(response, 401, "authentication_error", "the API key is missing or wrong");
    return Handled::Handled;
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty())
      reply_error(response, response.status, "invalid_request_error", status_text(response.status));
  });
#define RIDGE_ROUTE(method, path, name)                                                                                \
  server.method(path, [&service](const httplib::Request& request, httplib::Response& response) {                       \
    serve(name, service, request, response);                                                                           \
  });
#include "server/routes.def"
#undef RIDGE_ROUTE
  port_ = settings_.port;
  const bool bound = settings_.port == 0 ? (port_ = server.bind_to_any_port(settings_.host)) > 0
                                         : server.bind_to_port(settings_.host, settings_.port);
  if (!bound)
    throw_error("cannot listen on {} port {}: is it in use? (--host, --port)", settings_.host, settings_.port);
}

Server::~Server() = default;

void Server::run() { http_->server.listen_after_bind(); }

void Server::stop() { http_->server.stop(); }

} // namespace ridge::server
