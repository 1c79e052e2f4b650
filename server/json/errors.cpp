#include "server/json/errors.h"

#include "core/error.h"
#include "engine/prefixes/stream_cache.h"

namespace ridge::server {
namespace {

constexpr const char* kTooLong = "context_length_exceeded";

int64_t number_of(const ApiError& error, std::string_view name) {
  for (const auto& [other, number] : error.numbers)
    if (other == name) return number;
  return 0;
}

const char* anthropic_type(const ApiError& error) {
  switch (error.status) {
  case 401: return "authentication_error";
  case 403: return "permission_error";
  case 404: return "not_found_error";
  case 413: return "request_too_large";
  case 503: return "overloaded_error";
  default: return error.status < 500 ? "invalid_request_error" : "api_error";
  }
}

// Anthropic's clients search for this text.
std::string anthropic_message(const ApiError& error) {
  if (error.code != kTooLong) return error.what();
  return fmt::format("prompt is too long: {} tokens > {} maximum", number_of(error, "n_prompt_tokens"),
                     number_of(error, "n_ctx"));
}

} // namespace

ErrorForm form_of(const HttpRequest& request) {
  const auto is_under = [path = std::string_view(request.path)](std::string_view folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
  };
  if (is_under("/api")) return ErrorForm::ollama;
  if (is_under("/v1/messages") || is_under("/messages") || request.header("anthropic-version"))
    return ErrorForm::anthropic;
  return ErrorForm::openai;
}

Json error_json(ErrorForm form, const ApiError& error) {
  Json inner = Json::object();
  switch (form) {
  case ErrorForm::anthropic: inner = {{"type", anthropic_type(error)}, {"message", anthropic_message(error)}}; break;
  case ErrorForm::ollama: inner = {{"error", error.what()}}; break;
  default:
    inner = {{"message", error.what()}, {"type", error.type}, {"param", nullptr}, {"code", nullptr}};
    if (!error.parameter.empty()) inner["param"] = error.parameter;
    if (!error.code.empty()) inner["code"] = error.code;
  }
  for (const auto& [name, number] : error.numbers) inner[name] = number;
  if (form == ErrorForm::ollama) return inner;
  Json outer = {{"error", std::move(inner)}};
  if (form == ErrorForm::anthropic) outer = {{"type", "error"}, {"error", std::move(outer["error"])}};
  return outer;
}

ApiError to_api_error(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const ApiError*>(&thrown)) return *error;
  if (const auto* error = dynamic_cast<const engine::PromptTooLong*>(&thrown))
    return prompt_too_long(error->tokens, error->context);
  if (dynamic_cast<const Error*>(&thrown)) return {400, "invalid_request_error", thrown.what()};
  return {500, "server_error", "internal error"};
}

ApiError no_such_model(const std::string& name) {
  return {404, "invalid_request_error", fmt::format("model '{}' not found: /v1/models lists the available ones", name),
          "model", "model_not_found"};
}

// The message has the phrases by which clients of OpenAI, llama.cpp and Ollama detect that they must shorten a
// conversation.
ApiError prompt_too_long(int64_t tokens, int64_t context, const std::string& parameter) {
  ApiError error(400, "invalid_request_error",
                 fmt::format("This model's maximum context length is {1} tokens. The prompt has {0} tokens, which "
                             "exceeds the available context size: the input length exceeds the context length. "
                             "Shorten it, or start the server with a larger -c.",
                             tokens, context),
                 parameter, kTooLong);
  error.numbers = {{"n_prompt_tokens", tokens}, {"n_ctx", context}};
  return error;
}

} // namespace ridge::server
