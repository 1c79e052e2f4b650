// POST /v1/chat/completions.
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/openai.h"
#include "server/requests/chat_body.h"
#include "server/requests/request_fields.h"
#include "server/routes.h"
#include "server/tools.h"

#include <memory>
#include <string_view>

namespace ridge::server {
namespace {

class Chat final : public OpenAiReply {
 public:
  Chat(Service& service, const Fields& body)
      : OpenAiReply(service, body, {"/v1/chat/completions", "chatcmpl-", "chat.completion", "chat.completion.chunk"},
                    generations(service, body)),
        likely_(likely_of(body)), functions_(has_functions(body)), hides_(hides_reasoning(body)), messages_(answers()) {
  }

 private:
  struct Message {
    std::string content, reasoning;
    CallList calls;
    Json logprobs = Json::array();
  };

  static std::vector<Generation> generations(const Service& service, const Fields& body) {
    Generation generation = chat_generation(service, body);
    take_sampling(service, body, generation);
    generation.keep_choices = likely_of(body) >= 0;
    return copies(generation, answers_wanted(body));
  }

  Json empty_choice(size_t i) const override {
    return {{"index", i}, {"delta", Json::object()}, {"finish_reason", nullptr}};
  }

  Json opening(size_t i) const override {
    return {{"index", i}, {"delta", {{"role", "assistant"}, {"content", ""}}}, {"finish_reason", nullptr}};
  }

  Json event(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) override {
    Json delta = Json::object();
    if (!piece.reasoning.empty() && !hides_) delta["reasoning_content"] = piece.reasoning;
    if (!piece.content.empty()) delta["content"] = piece.content;
    if (Json calls = call_deltas(piece.calls); !calls.empty()) {
      if (functions_) // parts of a single call
        delta["function_call"] = join_functions(calls);
      else
        delta["tool_calls"] = std::move(calls);
    }
    if (token && delta.empty() && likely_ < 0) return nullptr;
    Json choice = {{"index", i}, {"delta", std::move(delta)}, {"finish_reason", nullptr}};
    if (!token) choice["finish_reason"] = end_of(i);
    if (token && likely_ >= 0)
      choice["logprobs"] = {{"content", Json::array({logprobs_of(service(), *token->choice, likely_)})},
                            {"refusal", nullptr}};
    return choice;
  }

  void add(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) override {
    messages_[i].content += piece.content;
    if (!hides_) messages_[i].reasoning += piece.reasoning;
    messages_[i].calls.add(piece.calls);
    if (token && likely_ >= 0) messages_[i].logprobs.push_back(logprobs_of(service(), *token->choice, likely_));
  }

  Json whole(size_t i) override {
    Json message = {
        {"role", "assistant"}, {"content", messages_[i].content}, {"refusal", nullptr}, {"annotations", Json::array()}};
    if (!messages_[i].reasoning.empty()) message["reasoning_content"] = messages_[i].reasoning;
    for (const text::ToolCall& call : messages_[i].calls.calls()) message["tool_calls"].push_back(openai_call(call));
    if (message.contains("tool_calls") && messages_[i].content.empty()) message["content"] = nullptr;
    if (functions_ && message.contains("tool_calls")) {
      message["function_call"] = message["tool_calls"][0]["function"];
      message.erase("tool_calls");
    }
    Json choice = {{"index", i}, {"message", std::move(message)}, {"logprobs", nullptr}, {"finish_reason", end_of(i)}};
    if (likely_ >= 0) choice["logprobs"] = {{"content", std::move(messages_[i].logprobs)}, {"refusal", nullptr}};
    return choice;
  }

  const char* end_of(size_t i) const {
    return functions_ && std::string_view(reason(i)) == "tool_calls" ? "function_call" : reason(i);
  }

  static Json join_functions(const Json& calls) {
    Json joined = Json::object();
    std::string arguments;
    for (const Json& call : calls) {
      const Json& function = call["function"];
      if (function.contains("name")) joined["name"] = function["name"];
      arguments += function["arguments"].get_ref<const std::string&>();
    }
    joined["arguments"] = std::move(arguments);
    return joined;
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

  static int64_t likely_of(const Fields& body) {
    const auto likely = likely_wanted(body);
    const bool wanted = body.flag("logprobs").value_or(false);
    if (likely > 0 && !wanted) throw_invalid("top_logprobs", "top_logprobs: requires logprobs to be true");
    return wanted ? likely.value_or(0) : -1;
  }

  const int64_t likely_;
  const bool functions_; // old form, `function_call`
  const bool hides_;
  std::vector<Message> messages_;
};

} // namespace

void openai_chat(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::chat);
  OpenAiReply::send(std::make_shared<Chat>(service, fields), response);
}

} // namespace ridge::server
