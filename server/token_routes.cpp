// Tokenization and chat prompts.
#include "core/strings/utf8.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/routes.h"

namespace ridge::server {
namespace {

// Gives bytes for parts of characters.
Json piece_json(const ModelService& service, int32_t token) {
  const std::string_view piece = service.tokenizer().piece(token);
  if (core::is_utf8(piece)) return piece;
  return std::vector<uint8_t>(piece.begin(), piece.end());
}

} // namespace

// llama.cpp names the text "content". vLLM names it "prompt" and adds special tokens by default.
void tokenize(ModelService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  const char* name = fields.find("prompt") ? "prompt" : "content";
  if (!fields.required(name).is_string()) throw_invalid(name, "{}: expected a string", name);
  const bool begins = fields.flag("add_special_tokens").value_or(name == std::string_view("prompt"));
  const text::EncodeOptions options = {.add_special = fields.flag("add_special").value_or(begins),
                                       .parse_special = fields.flag("parse_special").value_or(true)};
  const std::vector<int32_t> tokens = service.tokenizer().encode(body[name].get<std::string>(), options);
  Json list = tokens;
  if (fields.flag("with_pieces").value_or(false)) {
    list = Json::array();
    for (const int32_t token : tokens) list.push_back({{"id", token}, {"piece", piece_json(service, token)}});
  }
  Json json = {{"tokens", std::move(list)}, {"count", tokens.size()}, {"max_model_len", service.context()}};
  if (fields.flag("return_token_strs").value_or(false)) {
    json["token_strs"] = Json::array();
    for (const int32_t token : tokens)
      json["token_strs"].push_back(service.tokenizer().has(token) ? service.tokenizer().token_text(token) : "");
  }
  reply(response, json);
}

void detokenize(ModelService& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const std::vector<int32_t> tokens = token_ids(Fields(body, "").required("tokens"), "tokens");
  const std::string text = service.tokenizer().decode(tokens, {.render_special = true});
  reply(response, {{"content", text}, {"prompt", text}});
}

void tokenizer_info(ModelService& service, const HttpRequest&, HttpResponse& response) {
  const text::Tokenizer& tokenizer = service.tokenizer();
  const auto token = [&](int32_t id) { return id < 0 ? Json() : Json(tokenizer.token_text(id)); };
  Json info = {{"bos_token", token(tokenizer.bos())},
               {"eos_token", token(tokenizer.eos())},
               {"vocab_size", tokenizer.vocab_size()},
               {"model_max_length", service.context()}};
  if (const auto* texts = dynamic_cast<const Service*>(&service))
    info["chat_template"] = texts->chat_template().source();
  reply(response, info);
}

void apply_template(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  reply(response, {{"prompt", chat_generation(service, Fields(body, "")).chat_prompt->bytes()}});
}

} // namespace ridge::server
