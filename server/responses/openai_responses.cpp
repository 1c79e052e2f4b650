// POST /v1/responses: input and output are lists of items, and streams announce the begin and end of each. A request
// may continue an answer by its id.
#include "engine/options.h"
#include "server/answers.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/openai.h"
#include "server/requests/chat_body.h"
#include "server/requests/request_fields.h"
#include "server/responses/response_items.h"
#include "server/responses/response_messages.h"
#include "server/routes.h"
#include "server/tools.h"

#include <algorithm>
#include <ctime>
#include <memory>

namespace ridge::server {
namespace {

bool truncates(const Fields& body) {
  const std::string truncation = body.text("truncation").value_or("disabled");
  if (truncation != "auto" && truncation != "disabled")
    throw_invalid("truncation", "truncation: expected auto or disabled");
  return truncation == "auto";
}

std::optional<engine::ToolUse> tools_of(const Fields& body) {
  Json runnable = Json::object();
  const auto is_function = [](const Json& tool) {
    return !tool.is_object() || !tool.contains("type") || tool["type"] == "function";
  };
  const auto functions = [&](const Json& list) {
    Json kept = Json::array();
    for (const Json& tool : list)
      if (is_function(tool)) kept.push_back(tool);
    return kept;
  };
  for (const char* name : {"tools", "tool_choice", "parallel_tool_calls"})
    if (const Json* given = body.find(name)) runnable[name] = *given;
  if (runnable.contains("tools") && runnable["tools"].is_array()) runnable["tools"] = functions(runnable["tools"]);
  if (runnable.contains("tool_choice") && runnable["tool_choice"].is_object()) {
    Json& choice = runnable["tool_choice"];
    if (choice.contains("tools") && choice["tools"].is_array()) choice["tools"] = functions(choice["tools"]);
    const bool allowed = choice.contains("type") && choice["type"] == "allowed_tools";
    if (!allowed && !is_function(choice))
      throw_invalid("tool_choice.type", "tool_choice.type: this server does not run tools of type {}",
                    Client::to_text(choice["type"]));
  }
  return openai_tools(Fields(runnable, ""));
}

int64_t likely_of(const Fields& body) {
  const Json* include = body.find("include");
  const bool wanted = include && include->is_array() &&
                      std::ranges::find(*include, Json("message.output_text.logprobs")) != include->end();
  const int64_t likely = likely_wanted(body).value_or(0);
  return wanted || likely > 0 ? likely : -1;
}

Generation whole_generation(const Service& service, const Fields& body, const Json& messages) {
  Json prompt = Json::array();
  if (const auto instructions = body.text("instructions"))
    prompt.push_back({{"role", "system"}, {"content", *instructions}});
  prompt.insert(prompt.end(), messages.begin(), messages.end());
  Json variables = Json::object();
  if (const auto reasoning = body.object("reasoning"))
    if (const auto effort = reasoning->text("effort")) set_effort(variables, *effort);
  const auto tools = tools_of(body);
  const auto text = body.object("text"), format = text ? text->object("format") : std::nullopt;
  const AnswerForm form = answer_form(body);
  Json schema = format ? schema_of_format(*format) : Json();
  if (!schema.is_null() && !form.from.empty())
    throw_invalid(form.from, "text.format and {} cannot be combined: only one of them can constrain an answer",
                  form.from);
  if (!form.schema.is_null()) schema = form.schema;
  Generation generation = service.chat(prompt, tools ? &*tools : nullptr, variables, schema);
  hold(service, form, generation);
  take_sampling(service, body, generation, "max_output_tokens");
  take_reasoning_budget(body, generation.sampling);
  generation.keep_choices = likely_of(body) >= 0;
  return generation;
}

// With truncation, drops as few of the oldest messages as necessary for the prompt and an answer.
Generation generation_of(const Service& service, const Fields& body, const Json& messages) {
  const bool truncated = truncates(body);
  Generation generation = whole_generation(service, body, messages);
  if (!truncated || std::ssize(generation.prompt) <= service.context()) return generation;
  const int64_t most = generation.sampling.max_tokens, quarter = service.context() / 4;
  return without_oldest(messages, service.context() - (most < 0 ? quarter : std::min(most, quarter)),
                        [&](const Json& kept) { return whole_generation(service, body, kept); });
}

class ResponsesReply {
 public:
  ResponsesReply(Service& service, const Fields& body)
      : service_(service), stream_(body.flag("stream").value_or(false)), store_(body.flag("store").value_or(true)),
        likely_(likely_of(body)), pictures_(service), messages_(response_messages(service, body, pictures_)),
        input_(store_ ? listed_input(body.required("input")) : Json()), request_(echo(service, body)),
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
    try {
      if (follow(client, items)) finish(client, items, emit);
    } catch (const std::exception& error) {
      if (!stream_) throw;
      Json result = response("failed", items);
      result["error"] = {{"code", "server_error"}, {"message", error.what()}};
      emit("response.failed", {{"response", result}});
    }
  }

 private:
  bool follow(Client& client, OutputItems& items) {
    return answers_.follow([&] { return client.is_there(); },
                           [&](size_t, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) {
                             reasoning_tokens_ += token && !piece.reasoning.empty();
                             items.add(OutputItems::Kind::reasoning, piece.reasoning);
                             Json logprobs = Json::array();
                             if (token && likely_ >= 0 && !piece.content.empty())
                               logprobs.push_back(logprobs_of(service_, *token->choice, likely_));
                             items.add(OutputItems::Kind::message, piece.content, std::move(logprobs));
                             for (const text::CallParser::Delta& call : piece.calls) items.add_call(call);
                           });
  }

  void finish(Client& client, OutputItems& items, const OutputItems::Emit& emit) {
    const bool complete = std::string_view(finish_reason(answers_.all()[0])) != "length";
    items.finish(complete);
    Json result = response(complete ? "completed" : "incomplete", items);
    result["usage"] = usage();
    if (complete) result["completed_at"] = std::time(nullptr);
    if (!complete) result["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (store_) {
      messages_.push_back(items.message());
      service_.responses().add(id_, messages_, result, input_);
    }
    emit(complete ? "response.completed" : "response.incomplete", {{"response", result}});
    if (!stream_) client.line(result);
  }

  static Json echo(const Service& service, const Fields& body) {
    Json json = {{"model", body.text("model").value_or(service.name())}};
    const Json nothing = nullptr, object = Json::object();
    const auto repeat = [&](const char* name, const Json& otherwise) {
      const Json* value = body.find(name);
      json[name] = value ? *value : otherwise;
    };
    const core::SamplerParams& params = service.sampling().params;
    for (const char* name : {"instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
                             "prompt_cache_key", "safety_identifier", "user", "conversation", "prompt"})
      repeat(name, nothing);
    repeat("background", false);
    repeat("frequency_penalty", params.frequency_penalty);
    repeat("metadata", object);
    repeat("parallel_tool_calls", true);
    repeat("presence_penalty", params.presence_penalty);
    repeat("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
    json["service_tier"] = "default";
    repeat("store", true);
    repeat("temperature", params.temp);
    repeat("text", {{"format", {{"type", "text"}}}});
    repeat("tool_choice", "auto");
    repeat("tools", Json::array());
    repeat("top_logprobs", 0);
    repeat("top_p", params.top_p);
    repeat("truncation", "disabled");
    if (!json["text"].contains("format")) json["text"]["format"] = {{"type", "text"}};
    for (Json& tool : json["tools"])
      if (tool.is_object() && tool.contains("type") && tool["type"] == "function")
        for (const auto& [name, otherwise] :
             {std::pair("description", Json()), std::pair("parameters", Json()), std::pair("strict", Json(true))})
          if (!tool.contains(name)) tool[name] = otherwise;
    return json;
  }

  Json response(const char* status, const OutputItems& items) const {
    Json json = {{"id", id_},        {"object", "response"}, {"created_at", created_},       {"completed_at", nullptr},
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
  const int64_t likely_;
  RequestPictures pictures_; // keeps the pictures of messages_
  Json messages_;            // without instructions, which apply to one response only
  const Json input_, request_;
  const std::string id_ = new_id("resp_");
  const int64_t created_ = std::time(nullptr);
  Answers answers_;
  int64_t reasoning_tokens_ = 0;
};

} // namespace

void openai_responses(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::responses);
  const auto reply = std::make_shared<ResponsesReply>(service, fields);
  reply_later(response, reply->streams() ? Stream::events : Stream::none, ErrorForm::openai,
              [reply](Client& client) { reply->run(client); });
}

void openai_input_tokens(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  RequestPictures pictures(service);
  const size_t tokens = whole_generation(service, fields, response_messages(service, fields, pictures)).prompt.size();
  reply(response, {{"object", "response.input_tokens"}, {"input_tokens", tokens}});
}

} // namespace ridge::server
