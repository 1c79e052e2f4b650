// POST /v1/responses: OpenAI's newer form of a chat. Its input and output are lists of items, its stream says of each
// item when it begins and ends, and a request may go on from an answer by that one's id.
#include "engine/options.h"
#include "server/answers.h"
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/openai.h"
#include "server/reply.h"
#include "server/responses/response_items.h"
#include "server/routes.h"
#include "server/tools.h"

#include <ctime>
#include <memory>

namespace ridge::server {
namespace {

void refuse_unsupported(const Fields& body) {
  for (const char* name : {"background", "conversation", "prompt", "top_logprobs"})
    if (const Json* value = body.find(name); value && *value != false && *value != 0)
      throw_invalid(name, "{} is not supported", name);
  if (body.text("truncation").value_or("disabled") != "disabled")
    throw_invalid("truncation", "truncation: this server takes \"disabled\" only");
}

// What a request continues: the conversation of an earlier answer and its own input.
Json messages_of(const Service& service, const Fields& body) {
  Json messages = Json::array();
  if (const auto previous = body.text("previous_response_id")) {
    auto known = service.responses().find(*previous);
    if (!known)
      throw ApiError(404, "invalid_request_error",
                     fmt::format("previous_response_id: there is no response {} here; the latest {} are kept",
                                 *previous, ResponseStore::kMost),
                     "previous_response_id");
    messages = std::move(*known);
  }
  add_input(messages, body.required("input"));
  return messages;
}

Generation generation_of(const Service& service, const Fields& body, const Json& messages) {
  refuse_unsupported(body);
  Json prompt = Json::array();
  if (const auto instructions = body.text("instructions"))
    prompt.push_back({{"role", "system"}, {"content", *instructions}});
  prompt.insert(prompt.end(), messages.begin(), messages.end());
  Json variables = Json::object();
  if (const auto reasoning = body.object("reasoning"))
    if (const auto effort = reasoning->text("effort")) set_effort(variables, *effort);
  const auto tools = openai_tools(body);
  const auto text = body.object("text"), format = text ? text->object("format") : std::nullopt;
  Generation generation =
      service.chat(prompt, tools ? &*tools : nullptr, variables, format ? schema_of_format(*format) : Json());
  generation.priority = priority_of(body);
  take_numbers(body, generation.sampling.params);
  if (const auto most = body.integer("max_output_tokens", 1, INT32_MAX)) generation.sampling.max_tokens = *most;
  return generation;
}

// One request on its way: its answer becomes events, or one object.
class ResponsesReply {
 public:
  ResponsesReply(Service& service, const Fields& body)
      : service_(service), stream_(body.flag("stream").value_or(false)), store_(body.flag("store").value_or(true)),
        messages_(messages_of(service, body)), request_(echo(service, body)),
        answers_(service, "/v1/responses", {generation_of(service, body, messages_)}) {}

  bool streams() const { return stream_; }

  void run(Client& client) {
    int64_t number = 0;
    const auto emit = [&](const char* type, Json members) {
      if (!stream_) return;
      Json event = {{"type", type}, {"sequence_number", number++}};
      event.update(members);
      client.event(event, type);
    };
    OutputItems items(emit);
    emit("response.created", {{"response", response("in_progress", items)}});
    emit("response.in_progress", {{"response", response("in_progress", items)}});
    const bool whole =
        answers_.follow([&] { return client.is_there(); },
                        [&](size_t, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) {
                          reasoning_tokens_ += token && !piece.reasoning.empty();
                          items.add(OutputItems::Kind::reasoning, piece.reasoning);
                          items.add(OutputItems::Kind::message, piece.content);
                          for (const text::CallParser::Delta& call : piece.calls) items.add_call(call);
                        });
    if (whole) {
      const bool complete = std::string_view(finish_reason(answers_.all()[0])) != "length";
      items.finish(complete);
      Json result = response(complete ? "completed" : "incomplete", items);
      result["usage"] = usage();
      if (!complete) result["incomplete_details"] = {{"reason", "max_output_tokens"}};
      if (store_) {
        messages_.push_back(items.message());
        service_.responses().add(id_, messages_);
      }
      emit(complete ? "response.completed" : "response.incomplete", {{"response", result}});
      if (!stream_) client.line(result);
    }
  }

 private:
  // What a response repeats of its request.
  static Json echo(const Service& service, const Fields& body) {
    Json json = {{"model", body.text("model").value_or(service.name())}};
    const Json nothing = nullptr, object = Json::object();
    const auto repeat = [&](const char* name, const Json& otherwise) {
      const Json* value = body.find(name);
      json[name] = value ? *value : otherwise;
    };
    const core::SamplerParams& params = service.sampling().params;
    repeat("instructions", nothing);
    repeat("max_output_tokens", nothing);
    repeat("metadata", object);
    repeat("previous_response_id", nothing);
    repeat("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
    repeat("store", true);
    repeat("temperature", params.temp);
    repeat("text", {{"format", {{"type", "text"}}}});
    repeat("tool_choice", "auto");
    repeat("tools", Json::array());
    repeat("parallel_tool_calls", true);
    repeat("top_p", params.top_p);
    json["truncation"] = "disabled";
    return json;
  }

  Json response(const char* status, const OutputItems& items) const {
    Json json = {{"id", id_},        {"object", "response"}, {"created_at", created_},
                 {"status", status}, {"error", nullptr},     {"incomplete_details", nullptr}};
    json.update(request_);
    json.update({{"output", items.items()}, {"usage", nullptr}});
    return json;
  }

  Json usage() const {
    const int64_t prompt = answers_.prompt_tokens(), generated = answers_.generated_tokens();
    return {{"input_tokens", prompt},
            {"input_tokens_details",
             {{"cached_tokens", answers_.cached_tokens()}, {"cache_write_tokens", prompt - answers_.cached_tokens()}}},
            {"output_tokens", generated},
            {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens_}}},
            {"total_tokens", prompt + generated}};
  }

  Service& service_;
  const bool stream_, store_;
  Json messages_; // without the instructions, which hold for one response only
  const Json request_;
  const std::string id_ = new_id("resp");
  const int64_t created_ = std::time(nullptr);
  Answers answers_;
  int64_t reasoning_tokens_ = 0; // whose text was reasoning
};

} // namespace

void openai_responses(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const auto reply = std::make_shared<ResponsesReply>(service, Fields(body, ""));
  reply_later(response, reply->streams() ? Stream::events : Stream::none, ErrorForm::openai,
              [reply](Client& client) { reply->run(client); });
}

} // namespace ridge::server
