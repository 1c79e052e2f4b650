// POST /v1/embeddings (OpenAI), /api/embed and /api/embeddings (Ollama).
#include "core/clock.h"
#include "core/strings/base64.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/models/embedding_service.h"
#include "server/requests/request_fields.h"
#include "server/routes.h"

#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace ridge::server {
namespace {

constexpr size_t kMaxInputs = 2048;

class Embeddings {
 public:
  Embeddings(EmbeddingService& service, const Fields& body, std::vector<std::vector<int32_t>> inputs)
      : service_(service), use_(service), model_(body.text("model").value_or(service.name())),
        dimensions_(dimensions(service, body)), inputs_(std::move(inputs)) {}

  // Runs after the route has returned; stops if the client leaves.
  static void send(const std::shared_ptr<Embeddings>& request, ErrorForm form, const char* route,
                   const std::function<Json(const Embeddings&)>& make, HttpResponse& response) {
    EmbeddingService& service = request->service_;
    reply_unscheduled(service,
                      {.route = route,
                       .what = fmt::format("{} texts", request->inputs_.size()),
                       .tokens = request->tokens(),
                       .work = [request](Client& client) { return request->embed(client); },
                       .answer = [request, make] { return make(*request); }},
                      form, response);
  }

  const std::string& model() const { return model_; }
  const std::vector<std::vector<float>>& vectors() const { return vectors_; }
  double seconds() const { return seconds_; }
  int64_t tokens() const {
    int64_t sum = 0;
    for (const std::vector<int32_t>& input : inputs_) sum += std::ssize(input);
    return sum;
  }

 private:
  static int64_t dimensions(const EmbeddingService& service, const Fields& body) {
    const int64_t width = service.embedder().width();
    const auto wanted = body.integer("dimensions", 1, INT32_MAX);
    if (wanted > width)
      throw_invalid("dimensions", "dimensions: {} has vectors of {} elements, but {} were requested", service.name(),
                    width, *wanted);
    return wanted == width ? 0 : wanted.value_or(0);
  }

  bool embed(Client& client) {
    const double start = core::seconds_now();
    for (const std::vector<int32_t>& input : inputs_) {
      if (!client.is_there()) return false;
      vectors_.push_back(service_.embed(input, dimensions_));
    }
    seconds_ = core::seconds_now() - start;
    service_.count_request();
    return true;
  }

  EmbeddingService& service_;
  const ModelService::Use use_;
  const std::string model_;
  const int64_t dimensions_; // 0: all
  const std::vector<std::vector<int32_t>> inputs_;
  std::vector<std::vector<float>> vectors_;
  double seconds_ = 0;
};

void check(const EmbeddingService& service, const std::vector<int32_t>& tokens, const std::string& path) {
  const int64_t vocab = service.model().program.vocab;
  if (tokens.empty()) throw_invalid(path, "{}: a text without tokens has no embedding", path);
  if (std::ssize(tokens) > service.context()) throw prompt_too_long(std::ssize(tokens), service.context(), path);
  for (const int32_t token : tokens)
    if (token >= vocab) throw_invalid(path, "{}: {} is not a token of this vocabulary", path, token);
}

std::vector<int32_t> tokens_of(const EmbeddingService& service, const Json& text, bool truncate,
                               const std::string& path) {
  if (!text.is_string()) throw_invalid(path, "{}: expected a string", path);
  std::vector<int32_t> tokens = service.embedder().tokens_of(text.get<std::string>(), truncate);
  check(service, tokens, path);
  return tokens;
}

// A text, a token list, a list of texts or, `with_tokens`, a list of token lists.
std::vector<std::vector<int32_t>> inputs_of(const EmbeddingService& service, const Fields& body, bool with_tokens,
                                            bool truncate) {
  const Json& input = body.required("input");
  const auto ids = [&](const Json& list, const std::string& path) {
    std::vector<int32_t> tokens = token_ids(list, path);
    check(service, tokens, path);
    return tokens;
  };
  if (input.is_string()) return {tokens_of(service, input, truncate, "input")};
  if (!input.is_array() || input.empty() || input.size() > std::max<size_t>(kMaxInputs, service.context()))
    throw_invalid("input", "input: expected a string or a list of at most {} strings", kMaxInputs);
  if (with_tokens && input[0].is_number()) return {ids(input, "input")};
  if (input.size() > kMaxInputs) throw_invalid("input", "input: a list of at most {}", kMaxInputs);
  std::vector<std::vector<int32_t>> inputs;
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string path = fmt::format("input[{}]", i);
    inputs.push_back(with_tokens && input[i].is_array() ? ids(input[i], path)
                                                        : tokens_of(service, input[i], truncate, path));
  }
  return inputs;
}

} // namespace

void openai_embeddings(EmbeddingService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::embeddings);
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw_invalid("encoding_format", "encoding_format: expected float or base64");
  const auto make = [as_text = format == "base64"](const Embeddings& embeddings) {
    Json data = Json::array();
    for (const std::vector<float>& vector : embeddings.vectors())
      data.push_back({{"object", "embedding"},
                      {"index", data.size()},
                      {"embedding", as_text ? Json(core::to_base64(std::as_bytes(std::span(vector)))) : Json(vector)}});
    const int64_t tokens = embeddings.tokens();
    return Json{{"object", "list"},
                {"data", std::move(data)},
                {"model", embeddings.model()},
                {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
  };
  Embeddings::send(std::make_shared<Embeddings>(service, fields, inputs_of(service, fields, true, false)),
                   ErrorForm::openai, "/v1/embeddings", make, response);
}

void ollama_embed(EmbeddingService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::embeddings);
  const bool truncate = fields.flag("truncate").value_or(true);
  const auto make = [](const Embeddings& embeddings) {
    const auto nanoseconds = static_cast<int64_t>(embeddings.seconds() * 1e9);
    return Json{{"model", embeddings.model()},
                {"embeddings", embeddings.vectors()},
                {"total_duration", nanoseconds},
                {"load_duration", 0},
                {"prompt_eval_count", embeddings.tokens()}};
  };
  Embeddings::send(std::make_shared<Embeddings>(service, fields, inputs_of(service, fields, false, truncate)),
                   ErrorForm::ollama, "/api/embed", make, response);
}

void ollama_embeddings(EmbeddingService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::embeddings);
  const auto make = [](const Embeddings& embeddings) { return Json::object({{"embedding", embeddings.vectors()[0]}}); };
  std::vector<std::vector<int32_t>> inputs = {tokens_of(service, fields.required("prompt"), true, "prompt")};
  Embeddings::send(std::make_shared<Embeddings>(service, fields, std::move(inputs)), ErrorForm::ollama,
                   "/api/embeddings", make, response);
}

} // namespace ridge::server
