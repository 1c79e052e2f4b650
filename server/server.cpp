#include "server/server.h"

#include "core/error.h"
#include "server/api_error.h"
#include "server/reply.h"
#include "server/routes.h"

#include <httplib.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <strings.h>
#include <thread>
#include <type_traits>
#include <utility>

namespace ridge::server {
namespace {

constexpr const char* kInvalid = "invalid_request_error";
constexpr size_t kMostBytes = size_t{32} << 20;          // of a request's body
constexpr int kSecondsToRead = 10, kSecondsToWrite = 30; // that a client may leave us waiting
constexpr int kSecondsKept = 5, kRequestsKept = 1000;    // a connection without a request, and with
constexpr size_t kIdleConnections = 64;                  // threads beside one per stream
constexpr int kWaitingConnections = 1024;                // that nobody has accepted yet

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

void check_key(const httplib::Request& request, const std::string& key) {
  if (!key.empty() && request.path != "/health" && !has_key(request, key))
    throw ApiError(401, "authentication_error", "the API key is missing or wrong");
}

// Of a request whose body was not read yet. httplib holds it to kMostBytes by what Content-Length says, and only by
// that. Chunks of a POST are counted as they come (with_body); what else has no length it would read to its end, and
// compressed bodies it would decompress whatever they grow to.
void check_length(const httplib::Request& request) {
  const auto refuse = [](int status, const char* problem) { throw ApiError(status, kInvalid, problem); };
  const bool encoded = request.has_header("Transfer-Encoding");
  if (encoded && (request.method != "POST" || request.has_header("Content-Length") ||
                  request.get_header_value_count("Transfer-Encoding") > 1 ||
                  strcasecmp(request.get_header_value("Transfer-Encoding").c_str(), "chunked") != 0))
    refuse(411, "Transfer-Encoding: only a POST may come in chunks; send the body with its Content-Length");
  const auto [begin, end] = request.headers.equal_range("Content-Encoding");
  for (auto at = begin; at != end; ++at)
    if (!at->second.empty() && strcasecmp(at->second.c_str(), "identity") != 0)
      refuse(415, "Content-Encoding: compressed bodies are not taken; send the body uncompressed");
  if (encoded) return;
  const bool bodiless = request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
  if (!request.has_header("Content-Length")) {
    if (!bodiless && request.method != "DELETE") // of which httplib reads none then
      refuse(411, "Content-Length is missing; send it with the body, or as 0 without one");
    return;
  }
  const std::string length = request.get_header_value("Content-Length");
  if (request.get_header_value_count("Content-Length") > 1 || length.empty() ||
      length.find_first_not_of("0123456789") != std::string::npos)
    refuse(400, "Content-Length: expected one number, of the body's bytes");
  if (bodiless && length.find_first_not_of('0') != std::string::npos) // httplib would take it for the next request
    refuse(400, "Content-Length: a request of this method has no body; send it without one, or as a POST");
}

// A handler of POSTs whose body is held to kMostBytes also where its head does not say how long it is.
template <typename Serve>
httplib::Server::HandlerWithContentReader with_body(Serve serve) {
  return [serve](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
    std::string& body = const_cast<httplib::Request&>(request).body;
    bool fits = true;
    const bool whole = read([&](const char* bytes, size_t count) {
      fits = count <= kMostBytes - body.size();
      if (fits) body.append(bytes, count);
      return fits;
    });
    if (whole) return serve(request, response);
    if (!fits || response.status < 400) response.status = fits ? 400 : 413; // the error handler says what that is
  };
}

// Routes by their method.
struct Routes {
  httplib::Server& server;

  template <typename Serve>
  void Get(const std::string& path, Serve serve) {
    server.Get(path, serve);
  }
  template <typename Serve>
  void Post(const std::string& path, Serve serve) {
    server.Post(path, with_body(serve));
  }
};

// The model that a request names; nothing where it names none or there is only one.
std::optional<std::string> model_wanted(const Models& models, const HttpRequest& request) {
  if (!models.several()) return std::nullopt;
  if (request.method == "GET") return std::optional<std::string>(request.parameter("model"));
  const Json body = parse_body(request.body);
  return Fields(body, "").text("model");
}

// Calls `route` with what it takes: the models, or the service of the one that the request names.
template <typename Takes>
void with(Models& models, const HttpRequest& request, const std::function<void(Takes&)>& route) {
  if constexpr (std::is_same_v<Takes, const Models>) {
    route(models);
  } else {
    const ModelService::Use use = models.use(model_wanted(models, request));
    Takes* const service = dynamic_cast<Takes*>(&use.service());
    if (!service)
      throw_invalid("model", "the model {} {}", use.service().name(),
                    std::is_same_v<Takes, EmbeddingService>
                        ? "writes texts and embeds none: this needs an embedding model"
                        : "embeds texts and writes none: it answers /v1/embeddings, /api/embed and /api/embeddings");
    route(*service);
  }
}

HttpRequest request_of(const httplib::Request& from) {
  HttpRequest request{.method = from.method, .path = from.path, .body = from.body};
  if (from.matches.size() > 1) request.rest = from.matches[1];
  request.headers.assign(from.headers.begin(), from.headers.end());
  request.parameters.assign(from.params.begin(), from.params.end());
  return request;
}

class Sink final : public HttpSink {
 public:
  explicit Sink(httplib::DataSink& sink) : sink_(sink) {}
  bool write(std::string_view bytes) override { return sink_.write(bytes.data(), bytes.size()); }
  bool is_there() const override { return sink_.is_writable(); }

 private:
  httplib::DataSink& sink_;
};

void send(HttpResponse&& response, httplib::Response& to) {
  to.status = response.status;
  for (const auto& [name, value] : response.headers) to.set_header(name, value);
  if (!response.write) return to.set_content(response.content, response.content_type);
  to.set_chunked_content_provider(response.content_type,
                                  [write = std::move(response.write)](size_t, httplib::DataSink& to_client) {
                                    Sink sink(to_client);
                                    if (!write(sink)) return false;
                                    to_client.done();
                                    return true;
                                  });
}

// For a request whose body, or the rest of it, nobody reads: what comes of it would be taken for the next request.
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

void serve(ErrorForm form, const Models& models, const HttpRequest& request, HttpResponse& response,
           const std::function<void()>& route) {
  try {
    route();
  } catch (const ApiError& error) {
    reply(response, error_json(form, error.type, error.what(), error.parameter), error.status);
  } catch (const Error& error) { // of the engine: a prompt that does not fit, a template that refuses
    reply(response, error_json(form, kInvalid, error.what()), 400);
  } catch (const std::exception& error) {
    models.log(fmt::format("{} {}: internal error: {}", request.method, request.path, error.what()));
    reply(response, error_json(form, "server_error", "internal error"), 500);
  }
}

// The form of errors that no route answers: of a wrong key, or a body that is too large.
ErrorForm form_of(const std::string& path) {
#define RIDGE_ROUTE(method, route, name, form, Takes)                                                                  \
  if (path == route) return ErrorForm::form;
#include "server/routes.def"
#undef RIDGE_ROUTE
  return ErrorForm::openai;
}

std::string status_text(int status) {
  switch (status) {
  case 404: return "there is no such route";
  case 413: return fmt::format("the body has more than {} MiB", kMostBytes >> 20);
  default: return "the request is malformed";
  }
}

} // namespace

// httplib cuts an answer that begins behind its stop(). So that waits for the requests that have come whole until then.
struct Server::Http {
  httplib::Server server;
  std::mutex mutex;
  int beginning = 0; // requests that are here, and whose answers have not begun
  bool stopping = false;

  // From a request's arrival until its answer begins; null once the server stops.
  std::shared_ptr<void> begin() {
    const std::scoped_lock lock(mutex);
    if (stopping) return nullptr;
    ++beginning;
    return {this, [](Http* http) { http->end_beginning(); }};
  }
  void end_beginning() {
    const std::unique_lock lock(mutex);
    if (--beginning == 0 && stopping) server.stop();
  }
  void stop() {
    const std::scoped_lock lock(mutex);
    if (!std::exchange(stopping, true) && beginning == 0) server.stop();
  }
  void answer(ErrorForm form, const httplib::Request& request, httplib::Response& response,
              const std::function<void()>& route) {
    std::shared_ptr<void> beginning_of_this = begin();
    if (!beginning_of_this)
      return reply_and_close(request, response, error_json(form, "server_error", "the server is about to stop"), 503);
    route();
    if (!response.content_provider_) return;
    response.content_provider_ = [until_here = std::move(beginning_of_this),
                                  write = std::move(response.content_provider_)](size_t offset, size_t length,
                                                                                 httplib::DataSink& sink) mutable {
      until_here.reset();
      return write(offset, length, sink);
    };
  }
};

Server::Server(Models& models, Settings settings)
    : models_(models), settings_(std::move(settings)), http_(std::make_unique<Http>()) {
  listen();
}

Server::Server(std::unique_ptr<Models> own, Settings settings)
    : own_(std::move(own)), models_(*own_), settings_(std::move(settings)), http_(std::make_unique<Http>()) {
  listen();
}

Server::Server(ModelService& only, Settings settings) : Server(std::make_unique<Models>(only), std::move(settings)) {}

void Server::listen() {
  httplib::Server& server = http_->server;
  const size_t threads = static_cast<size_t>(models_.parallel()) + kIdleConnections;
  server.new_task_queue = [threads] { return new httplib::ThreadPool(threads); }; // httplib deletes it
  server.set_payload_max_length(kMostBytes);
  server.set_read_timeout(kSecondsToRead);
  server.set_write_timeout(kSecondsToWrite);
  server.set_keep_alive_timeout(kSecondsKept);
  server.set_keep_alive_max_count(kRequestsKept);
  server.set_tcp_nodelay(true);
  socket_t listening = INVALID_SOCKET;
  server.set_socket_options([&listening](socket_t socket) { // httplib's own would let two servers share a port
    const int yes = 1;
    listening = socket;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  if (!settings_.cors.empty()) server.set_default_headers({{"Access-Control-Allow-Origin", settings_.cors}});
  const auto refuse = [this](const httplib::Request& request, httplib::Response& response, const std::string& type,
                             const std::string& message, int status) {
    const ErrorForm form = form_of(request.path);
    http_->answer(form, request, response,
                  [&] { reply_and_close(request, response, error_json(form, type, message), status); });
  };
  server.set_pre_routing_handler([this, refuse](const httplib::Request& request, httplib::Response& response) {
    using Handled = httplib::Server::HandlerResponse;
    // All bodies are JSON, whatever they are called. httplib would take curl's -d for a form, of 8 KiB at most.
    const_cast<httplib::Request&>(request).headers.erase("Content-Type");
    try {
      check_length(request);
      if (!settings_.cors.empty() && request.method == "OPTIONS") { // a page asks whether it may send its request
        response.set_header("Access-Control-Allow-Methods", "GET, POST");
        response.set_header("Access-Control-Allow-Headers", "*, Authorization");
        response.status = 204;
        return Handled::Handled;
      }
      check_key(request, settings_.key);
      return Handled::Unhandled;
    } catch (const ApiError& error) {
      refuse(request, response, error.type, error.what(), error.status);
      return Handled::Handled;
    }
  });
  server.set_error_handler([refuse](const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty() && !response.content_provider_)
      refuse(request, response, kInvalid, status_text(response.status), response.status);
  });
  Routes routes{server};
#define RIDGE_ROUTE(method, path, name, form, Takes)                                                                   \
  routes.method(std::regex_replace(path, std::regex("[*]"), "(.+)"),                                                   \
                [this](const httplib::Request& from, httplib::Response& to) {                                          \
                  http_->answer(ErrorForm::form, from, to, [&] {                                                       \
                    const HttpRequest request = request_of(from);                                                      \
                    HttpResponse response;                                                                             \
                    serve(ErrorForm::form, models_, request, response, [&] {                                           \
                      with<Takes>(models_, request, [&](Takes& served) { name(served, request, response); });          \
                    });                                                                                                \
                    send(std::move(response), to);                                                                     \
                  });                                                                                                  \
                });
#include "server/routes.def"
#undef RIDGE_ROUTE
  server.Post(".*", [](const httplib::Request&, httplib::Response& response, const httplib::ContentReader&) {
    response.status = 404; // whose body nobody reads
  });
  port_ = settings_.port;
  const bool bound = settings_.port == 0 ? (port_ = server.bind_to_any_port(settings_.host)) > 0
                                         : server.bind_to_port(settings_.host, settings_.port);
  if (!bound)
    throw_error("cannot listen on {} port {}: is it in use? (--host, --port)", settings_.host, settings_.port);
  server.set_socket_options(nullptr);
  ::listen(listening, kWaitingConnections); // httplib lets 5 wait, and who comes then is turned away
}

Server::~Server() = default;

void Server::run() {
  entered_ = true;
  if (!stopping_) http_->server.listen_after_bind();
  left_ = true;
}

void Server::stop() {
  models_.stop();
  stopping_ = true;
  // A run() that has begun and does not listen yet would not notice.
  while (entered_ && !left_ && !http_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  http_->stop();
}

} // namespace ridge::server
