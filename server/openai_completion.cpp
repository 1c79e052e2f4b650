// POST /v1/completions: texts are continued as they are, without a chat template.
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/openai.h"
#include "server/routes.h"

#include <memory>

namespace ridge::server {
namespace {

// The prompts: a text or a list of texts, a list of tokens or a list of such lists.
std::vector<std::vector<int32_t>> prompts_of(const Service& service, const Fields& body) {
  constexpr size_t kMostPrompts = 16;
  const Json& prompt = body.required("prompt");
  const auto encode = [&](const Json& text) {
    return service.tokenizer().encode(text.get<std::string>(), {.add_special = true, .parse_special = false});
  };
  if (prompt.is_string()) return {encode(prompt)};
  if (!prompt.is_array() || prompt.empty()) throw_invalid("prompt", "prompt: expected text, tokens or a list of them");
  if (prompt[0].is_number()) return {token_ids(prompt, "prompt")};
  if (prompt.size() > kMostPrompts) throw_invalid("prompt", "prompt: a list of {} at most", kMostPrompts);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < prompt.size(); ++i)
    prompts.push_back(prompt[i].is_string() ? encode(prompt[i]) : token_ids(prompt[i], fmt::format("prompt[{}]", i)));
  return prompts;
}

class Completion final : public OpenAiReply {
 public:
  Completion(Service& service, const Fields& body)
      : OpenAiReply(service, body, {"/v1/completions", "cmpl", "text_completion", "text_completion"},
                    generations(service, body)),
        texts_(answers()) {}

 private:
  static std::vector<Generation> generations(const Service& service, const Fields& body) {
    for (const char* name : {"echo", "suffix", "logprobs", "best_of"})
      if (const Json* value = body.find(name); value && *value != false && *value != "" && *value != 1)
        throw_invalid(name, "{} is not supported", name);
    Generation generation;
    generation.sampling = service.sampling();
    generation.priority = priority_of(body);
    take_sampling(body, generation.sampling);
    if (const auto format = body.object("response_format"))
      if (const Json schema = schema_of_format(*format); !schema.is_null())
        generation.sampling.json_schema = Client::to_text(schema);
    std::vector<Generation> all;
    for (std::vector<int32_t>& prompt : prompts_of(service, body)) {
      engine::check_prompt(prompt, service.context(), service.model().program.vocab); // before there are copies of it
      generation.prompt = std::move(prompt);
      for (Generation& copy : copies(generation, answers_wanted(body))) all.push_back(std::move(copy));
    }
    return all;
  }

  static Json choice(size_t i, const std::string& text, const char* reason) {
    Json choice = {{"index", i}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
    if (reason) choice["finish_reason"] = reason;
    return choice;
  }

  Json event(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) const override {
    if (token && piece.content.empty()) return nullptr;
    return choice(i, piece.content, token ? nullptr : reason(i));
  }

  void add(size_t i, const engine::Sequence::Token*, const engine::AnswerText::Piece& piece) override {
    texts_[i] += piece.content;
  }

  Json whole(size_t i) override { return choice(i, texts_[i], reason(i)); }

  std::vector<std::string> texts_;
};

} // namespace

void openai_completion(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  OpenAiReply::send(std::make_shared<Completion>(service, Fields(body, "")), response);
}

} // namespace ridge::server
