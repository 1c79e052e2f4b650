// Text to tokens and back, and a chat's prompt, as the model sees it.
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/reply.h"
#include "server/routes.h"

namespace ridge::server {

void tokenize(ModelService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  if (!fields.required("content").is_string()) throw_invalid("content", "content: expected a string");
  const text::EncodeOptions options = {.add_special = fields.flag("add_special").value_or(false),
                                       .parse_special = fields.flag("parse_special").value_or(true)};
  reply(response, {{"tokens", service.tokenizer().encode(body["content"].get<std::string>(), options)}});
}

void detokenize(ModelService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const std::vector<int32_t> tokens = token_ids(Fields(body, "").required("tokens"), "tokens");
  reply(response, {{"content", service.tokenizer().decode(tokens, {.render_special = true})}});
}

void apply_template(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  reply(response, {{"prompt", chat_generation(service, Fields(body, "")).chat_prompt->bytes()}});
}

} // namespace ridge::server
