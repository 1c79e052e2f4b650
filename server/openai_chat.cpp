// POST /v1/chat/completions: an answer to messages, whole or as a stream of events.
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/openai.h"
#include "server/routes.h"

#include <cmath>
#include <ctime>
#include <memory>

namespace ridge::server {
namespace {

constexpr int64_t kMostLikely = std::tuple_size_v<decltype(core::TokenChoice::top)>;

// One request on its way: what it asked for, and its answers.
class Chat {
 public:
  Chat(Service& service, const Fields& body)
      : service_(service), options_(openai_options(body)), likely_(likely_of(body)),
        model_(body.text("model").value_or(service.name())), answers_(service, generations(service, body)) {}

  bool streams() const { return options_.stream; }

  void stream(Client& client) {
    const auto send = [&](size_t index, Json delta, const Json& logprobs, const Json& reason) {
      Json choice = {{"index", index}, {"delta", std::move(delta)}, {"finish_reason", reason}};
      if (!logprobs.is_null()) choice["logprobs"] = {{"content", Json::array({logprobs})}};
      client.event(envelope("chat.completion.chunk", Json::array({std::move(choice)})));
    };
    for (size_t i = 0; i < answers_.all().size(); ++i)
      send(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    const bool whole =
        answers_.follow([&] { return client.is_there(); },
                        [&](size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) {
                          const Json logprobs = token ? logprobs_of(*token) : Json();
                          Json delta = Json::object();
                          if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
                          if (!piece.content.empty()) delta["content"] = piece.content;
                          if (!delta.empty() || !logprobs.is_null()) send(i, std::move(delta), logprobs, nullptr);
                          if (!token) send(i, Json::object(), nullptr, finish_reason(answers_.all()[i].stop));
                        });
    if (whole && options_.usage_in_stream) {
      Json last = envelope("chat.completion.chunk", Json::array());
      last["usage"] = usage_json(answers_);
      client.event(last);
    }
    if (whole) client.write("data: [DONE]\n\n");
    log_answers(service_, "/v1/chat/completions", answers_, whole);
  }

  void answer(Client& client) {
    struct Message {
      std::string content, reasoning;
      Json logprobs = Json::array();
    };
    std::vector<Message> messages(answers_.all().size());
    const bool whole =
        answers_.follow([&] { return client.is_there(); },
                        [&](size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) {
                          messages[i].content += piece.content;
                          messages[i].reasoning += piece.reasoning;
                          if (token && likely_ >= 0) messages[i].logprobs.push_back(logprobs_of(*token));
                        });
    Json choices = Json::array();
    for (size_t i = 0; i < messages.size(); ++i) {
      Json message = {{"role", "assistant"}, {"content", messages[i].content}};
      if (!messages[i].reasoning.empty()) message["reasoning_content"] = messages[i].reasoning;
      Json choice = {{"index", i},
                     {"message", std::move(message)},
                     {"logprobs", nullptr},
                     {"finish_reason", finish_reason(answers_.all()[i].stop)}};
      if (likely_ >= 0) choice["logprobs"] = {{"content", std::move(messages[i].logprobs)}};
      choices.push_back(std::move(choice));
    }
    Json result = envelope("chat.completion", std::move(choices));
    result["usage"] = usage_json(answers_);
    client.write(Client::to_text(result) + "\n");
    log_answers(service_, "/v1/chat/completions", answers_, whole);
  }

 private:
  // How many likely tokens are wanted for each one; -1: not even its own probability.
  static int64_t likely_of(const Fields& body) {
    const auto likely = body.integer("top_logprobs", 0, kMostLikely);
    return body.flag("logprobs").value_or(false) ? likely.value_or(0) : -1;
  }

  std::vector<Generation> generations(const Service& service, const Fields& body) const {
    Generation generation = chat_generation(service, body);
    take_sampling(body, generation.sampling);
    generation.keep_choices = likely_ >= 0;
    return copies(generation, options_.answers);
  }

  Json envelope(const char* object, Json choices) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}, {"choices", std::move(choices)}};
  }

  Json logprobs_of(const engine::Sequence::Token& token) const {
    if (!token.choice) return nullptr;
    const auto entry = [&](int32_t id, float probability) {
      const std::string_view piece = service_.tokenizer().piece(id);
      return Json{{"token", token_text(service_, id)},
                  {"logprob", probability > 0 ? std::log(probability) : -9999.0f}, // as OpenAI's API writes it
                  {"bytes", std::vector<uint8_t>(piece.begin(), piece.end())}};
    };
    Json chosen = entry(token.id, token.choice->probability), likely = Json::array();
    for (int64_t i = 0; i < likely_; ++i)
      if (const core::TokenChoice::Likely& one = token.choice->top[i]; one.token >= 0)
        likely.push_back(entry(one.token, one.probability));
    chosen["top_logprobs"] = std::move(likely);
    return chosen;
  }

  Service& service_;
  const OpenAiOptions options_;
  const int64_t likely_;
  const std::string model_, id_ = new_id("chatcmpl");
  const int64_t created_ = std::time(nullptr);
  Answers answers_;
};

} // namespace

void openai_chat(Service& service, const httplib::Request& request, httplib::Response& response) {
  const Json body = parse_body(request.body);
  const auto chat = std::make_shared<Chat>(service, Fields(body, ""));
  reply_later(response, chat->streams(),
              [chat](Client& client) { chat->streams() ? chat->stream(client) : chat->answer(client); });
}

} // namespace ridge::server
