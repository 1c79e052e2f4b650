// POST /v1/completions: texts are continued as they are, without a chat template.
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/openai.h"
#include "server/routes.h"

#include <ctime>
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

class Completion {
 public:
  Completion(Service& service, const Fields& body)
      : service_(service), options_(openai_options(body)), model_(body.text("model").value_or(service.name())),
        answers_(service, generations(service, body)) {}

  bool streams() const { return options_.stream; }

  void stream(Client& client) {
    const bool whole =
        answers_.follow([&] { return client.is_there(); },
                        [&](size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) {
                          if (!token || !piece.content.empty())
                            client.event(envelope(Json::array({choice(i, piece.content, !token)})));
                        });
    if (whole && options_.usage_in_stream) {
      Json last = envelope(Json::array());
      last["usage"] = usage_json(answers_);
      client.event(last);
    }
    if (whole) client.write("data: [DONE]\n\n");
    log_answers(service_, "/v1/completions", answers_, whole);
  }

  void answer(Client& client) {
    std::vector<std::string> texts(answers_.all().size());
    const bool whole = answers_.follow([&] { return client.is_there(); },
                                       [&](size_t i, const engine::Sequence::Token*,
                                           const engine::AnswerText::Piece& piece) { texts[i] += piece.content; });
    Json choices = Json::array();
    for (size_t i = 0; i < texts.size(); ++i) choices.push_back(choice(i, texts[i], true));
    Json result = envelope(std::move(choices));
    result["usage"] = usage_json(answers_);
    client.write(Client::to_text(result) + "\n");
    log_answers(service_, "/v1/completions", answers_, whole);
  }

 private:
  std::vector<Generation> generations(const Service& service, const Fields& body) const {
    for (const char* name : {"echo", "suffix", "logprobs", "best_of"})
      if (const Json* value = body.find(name); value && *value != false && *value != "" && *value != 1)
        throw_invalid(name, "{} is not supported", name);
    Generation generation;
    generation.sampling = service.sampling();
    take_sampling(body, generation.sampling);
    std::vector<Generation> all;
    for (std::vector<int32_t>& prompt : prompts_of(service, body)) {
      generation.prompt = std::move(prompt);
      for (Generation& copy : copies(generation, options_.answers)) all.push_back(std::move(copy));
    }
    return all;
  }

  Json envelope(Json choices) const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", model_},
            {"choices", std::move(choices)}};
  }

  Json choice(size_t index, const std::string& text, bool ended) const {
    Json reason;
    if (ended) reason = finish_reason(answers_.all()[index].stop);
    return {{"index", index}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", std::move(reason)}};
  }

  Service& service_;
  const OpenAiOptions options_;
  const std::string model_, id_ = new_id("cmpl");
  const int64_t created_ = std::time(nullptr);
  Answers answers_;
};

} // namespace

void openai_completion(Service& service, const httplib::Request& request, httplib::Response& response) {
  const Json body = parse_body(request.body);
  const auto completion = std::make_shared<Completion>(service, Fields(body, ""));
  reply_later(response, completion->streams(), [completion](Client& client) {
    completion->streams() ? completion->stream(client) : completion->answer(client);
  });
}

} // namespace ridge::server
