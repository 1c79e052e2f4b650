// POST /v1/chat/completions: an answer to messages, whole or as a stream of events.
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/openai.h"
#include "server/routes.h"
#include "server/tools.h"

#include <cmath>
#include <memory>

namespace ridge::server {
namespace {

constexpr int64_t kMostLikely = std::tuple_size_v<decltype(core::TokenChoice::top)>;

class Chat final : public OpenAiReply {
 public:
  Chat(Service& service, const Fields& body)
      : OpenAiReply(service, body, {"/v1/chat/completions", "chatcmpl", "chat.completion", "chat.completion.chunk"},
                    generations(service, body)),
        likely_(likely_of(body)), messages_(answers()) {}

 private:
  struct Message {
    std::string content, reasoning;
    CallList calls;
    Json logprobs = Json::array();
  };

  static std::vector<Generation> generations(const Service& service, const Fields& body) {
    Generation generation = chat_generation(service, body);
    take_sampling(body, generation.sampling);
    generation.keep_choices = likely_of(body) >= 0;
    generation.priority = priority_of(body);
    return copies(generation, answers_wanted(body));
  }

  Json opening(size_t i) const override {
    return {{"index", i}, {"delta", {{"role", "assistant"}, {"content", ""}}}, {"finish_reason", nullptr}};
  }

  Json event(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) const override {
    Json delta = Json::object();
    if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
    if (!piece.content.empty()) delta["content"] = piece.content;
    if (Json calls = call_deltas(piece.calls); !calls.empty()) delta["tool_calls"] = std::move(calls);
    if (token && delta.empty() && likely_ < 0) return nullptr;
    Json choice = {{"index", i}, {"delta", std::move(delta)}, {"finish_reason", nullptr}};
    if (!token) choice["finish_reason"] = reason(i);
    if (token && likely_ >= 0) choice["logprobs"] = {{"content", Json::array({logprobs_of(*token)})}};
    return choice;
  }

  void add(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) override {
    messages_[i].content += piece.content;
    messages_[i].reasoning += piece.reasoning;
    messages_[i].calls.add(piece.calls);
    if (token && likely_ >= 0) messages_[i].logprobs.push_back(logprobs_of(*token));
  }

  Json whole(size_t i) override {
    Json message = {{"role", "assistant"}, {"content", messages_[i].content}};
    if (!messages_[i].reasoning.empty()) message["reasoning_content"] = messages_[i].reasoning;
    for (const text::ToolCall& call : messages_[i].calls.calls()) message["tool_calls"].push_back(openai_call(call));
    if (message.contains("tool_calls") && messages_[i].content.empty()) message["content"] = nullptr;
    Json choice = {{"index", i}, {"message", std::move(message)}, {"logprobs", nullptr}, {"finish_reason", reason(i)}};
    if (likely_ >= 0) choice["logprobs"] = {{"content", std::move(messages_[i].logprobs)}};
    return choice;
  }

  static Json call_deltas(const std::vector<text::CallParser::Delta>& calls) {
    Json deltas = Json::array();
    for (const text::CallParser::Delta& call : calls) {
      if (call.begins)
        deltas.push_back(openai_call({call.id, call.name, call.arguments}, static_cast<int64_t>(call.index)));
      else if (!call.arguments.empty())
        deltas.push_back({{"index", call.index}, {"function", {{"arguments", call.arguments}}}});
    }
    return deltas;
  }

  // How many likely tokens are wanted for each one; -1: not even its own probability.
  static int64_t likely_of(const Fields& body) {
    const auto likely = body.integer("top_logprobs", 0, kMostLikely);
    return body.flag("logprobs").value_or(false) ? likely.value_or(0) : -1;
  }

  Json logprobs_of(const engine::Sequence::Token& token) const {
    const auto entry = [&](int32_t id, float probability) {
      const std::string_view piece = service().tokenizer().piece(id);
      return Json{{"token", token_text(service(), id)},
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

  const int64_t likely_;
  std::vector<Message> messages_;
};

} // namespace

void openai_chat(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  OpenAiReply::send(std::make_shared<Chat>(service, Fields(body, "")), response);
}

} // namespace ridge::server
