// POST /v1/messages and /v1/messages/count_tokens (Anthropic).
#include "engine/options.h"
#include "server/answers.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/requests/chat_body.h"
#include "server/requests/pictures.h"
#include "server/requests/request_fields.h"
#include "server/requests/sampling_fields.h"
#include "server/routes.h"
#include "server/tools.h"

#include <memory>

namespace ridge::server {
namespace {

std::string document_text(const Fields& block) {
  const auto source = block.object("source");
  const std::string type = source ? source->text("type").value_or("") : "";
  if (type == "text") return source->text("data").value_or("");
  if (type == "content") return content_text(source->required("content"), source->path_of("content"));
  throw_invalid(block.path_of("source.type"), "{}: this server accepts only documents of type \"text\"",
                block.path_of("source.type"));
}

// Results of calls become messages before the text. Calls of server-side tools count as the client's.
void add_message(Json& messages, const std::string& role, const Json& content, const std::string& path) {
  Json parts = Json::array(), calls = Json::array();
  if (!content.is_array()) parts = content;
  for (size_t i = 0; content.is_array() && i < content.size(); ++i) {
    const Fields block(content[i], fmt::format("{}[{}]", path, i));
    const std::string type = block.text("type").value_or("");
    const Json* result = block.find("content");
    if (type.ends_with("tool_use")) {
      if (block.text("name").value_or("").empty())
        throw_invalid(block.path_of("name"), "{}: expected a tool name", block.path_of("name"));
      const Json* input = block.find("input");
      calls.push_back({{"id", block.text("id").value_or("")},
                       {"function", {{"name", block.required("name")}, {"arguments", input ? *input : Json()}}}});
    } else if (type.ends_with("tool_result")) {
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", block.text("tool_use_id").value_or("")},
                          {"content", result ? result_text(*result, block.path_of("content")) : ""}});
    } else if (type == "document") {
      parts.push_back({{"type", "text"}, {"text", document_text(block)}});
    } else if (type != "redacted_thinking") {
      content_text(content[i], block.path());
      parts.push_back(content[i]);
    }
  }
  const bool only_results = parts.empty() && calls.empty() && content.is_array() && !content.empty();
  if (only_results) return;
  if (!content.is_array()) content_text(parts, path);
  messages.push_back({{"role", role}, {"content", std::move(parts)}});
  if (!calls.empty()) messages.back()["tool_calls"] = std::move(calls);
}

// From `output_config.format` or the older `output_format`; may be null.
Json output_schema(const Fields& body) {
  const auto config = body.object("output_config");
  const auto format = config ? config->object("format") : body.object("output_format");
  return format ? schema_of_format(*format) : Json();
}

Generation generation_of(const Service& service, const Fields& body) {
  Json messages = Json::array();
  if (const Json* system = body.find("system"))
    messages.push_back({{"role", "system"}, {"content", content_text(*system, "system")}});
  RequestPictures pictures(service);
  const Json given = pictures.put(body.required("messages"), "messages");
  if (!given.is_array() || given.empty()) throw_invalid("messages", "messages: expected a list of messages");
  for (size_t i = 0; i < given.size(); ++i) {
    const Fields message(given[i], fmt::format("messages[{}]", i));
    const std::string role = message.text("role").value_or("");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      throw_invalid(message.path_of("role"), "{}: unknown role \"{}\"; expected user, assistant or system",
                    message.path_of("role"), role);
    const Json* content = message.find("content");
    add_message(messages, role, content ? *content : Json(), message.path_of("content"));
  }
  messages = read_messages(service, messages);
  Json variables = Json::object();
  if (const auto thinking = body.object("thinking"))
    engine::set_thinking(variables, thinking->text("type").value_or("") != "disabled");
  const auto tools = anthropic_tools(body);
  Generation generation = service.chat(messages, tools ? &*tools : nullptr, variables, output_schema(body));
  take_numbers(body, generation.sampling.params);
  take_adapters(body, service.model().program.adapters.size(), generation.sampling);
  take_reasoning_budget(body, generation.sampling);
  if (body.find("stop_sequences")) generation.sampling.stop = body.texts("stop_sequences", kMaxStops);
  return generation;
}

class Message {
 public:
  Message(Service& service, const Fields& body)
      : model_(body.text("model").value_or(service.name())),
        answers_(service, "/v1/messages", {limited(service, body)}) {}

  void stream(Client& client) {
    const Json begun = usage(answers_.prompt_tokens(), 0, 0);
    client.event({{"type", "message_start"}, {"message", message(Json::array(), nullptr, begun)}}, "message_start");
    Json::size_type blocks = 0;
    const char* open = nullptr;
    const auto close = [&] {
      if (open == kThinking) // clients wait for a signature; ridge does not check it
        client.event({{"type", "content_block_delta"},
                      {"index", blocks},
                      {"delta", {{"type", "signature_delta"}, {"signature", ""}}}},
                     "content_block_delta");
      if (open) client.event({{"type", "content_block_stop"}, {"index", blocks++}}, "content_block_stop");
      open = nullptr;
    };
    const auto start = [&](const char* type, const Json& block) {
      close();
      client.event({{"type", "content_block_start"}, {"index", blocks}, {"content_block", block}},
                   "content_block_start");
      open = type;
    };
    const auto send = [&](const Json& delta) {
      client.event({{"type", "content_block_delta"}, {"index", blocks}, {"delta", delta}}, "content_block_delta");
    };
    const auto write = [&](const char* type, const std::string& text) {
      if (text.empty()) return;
      if (open != type) start(type, type == kText ? text_block("") : thinking_block(""));
      send({{"type", std::string(type) + "_delta"}, {type, text}});
    };
    const bool whole = follow(client, [&](const engine::AnswerText::Piece& piece) {
      write(kThinking, piece.reasoning);
      write(kText, piece.content);
      for (const text::CallParser::Delta& call : piece.calls) {
        if (call.begins) start(kCall, call_block({call.id, call.name, {}}));
        if (!call.arguments.empty()) send({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
      }
    });
    if (whole) {
      if (!open || open == kThinking) start(kText, text_block("")); // whole answers have one, too
      close();
      client.event({{"type", "message_delta"}, {"delta", stop_json()}, {"usage", usage()}}, "message_delta");
      client.event({{"type", "message_stop"}}, "message_stop");
    }
  }

  void answer(Client& client) {
    std::string text, reasoning;
    CallList calls;
    const bool whole = follow(client, [&](const engine::AnswerText::Piece& piece) {
      text += piece.content;
      reasoning += piece.reasoning;
      calls.add(piece.calls);
    });
    if (whole) {
      Json content = Json::array();
      if (!reasoning.empty()) content.push_back(thinking_block(reasoning));
      if (!text.empty() || calls.calls().empty()) content.push_back(text_block(text));
      for (const text::ToolCall& call : calls.calls()) content.push_back(call_block(call));
      client.line(message(std::move(content), stop_json(), usage()));
    }
  }

 private:
  static constexpr const char *kText = "text", *kThinking = "thinking", *kCall = "tool_use";

  static Json text_block(const std::string& text) { return {{"type", kText}, {kText, text}, {"citations", nullptr}}; }
  static Json thinking_block(const std::string& text) {
    return {{"type", kThinking}, {kThinking, text}, {"signature", ""}};
  }
  static Json call_block(const text::ToolCall& call) {
    return {{"type", kCall},
            {"id", call.id},
            {"name", call.name},
            {"input", arguments_of(call)},
            {"caller", {{"type", "direct"}}}};
  }

  static Generation limited(const Service& service, const Fields& body) {
    Generation generation = generation_of(service, body);
    body.required("max_tokens");
    generation.sampling.max_tokens = *body.integer("max_tokens", 1, INT32_MAX);
    return generation;
  }

  bool follow(Client& client, const std::function<void(const engine::AnswerText::Piece&)>& take) {
    return answers_.follow([&] { return client.is_there(); },
                           [&](size_t, const auto*, const engine::AnswerText::Piece& piece) { take(piece); });
  }

  Json stop_json() const {
    using engine::StopReason;
    const Answers::Answer& answer = answers_.all()[0];
    const bool stopped = answer.stop == StopReason::stopped;
    const char* reason = stopped                   ? "stop_sequence"
                         : answer.is_cut()         ? "max_tokens"
                         : answer.text.calls() > 0 ? "tool_use"
                                                   : "end_turn";
    return {{"stop_reason", reason},
            {"stop_sequence", stopped ? Json(answer.text.stop()) : Json()},
            {"stop_details", nullptr},
            {"container", nullptr}};
  }

  Json usage() const { return usage(answers_.prompt_tokens(), answers_.cached_tokens(), answers_.generated_tokens()); }
  static Json usage(int64_t prompt, int64_t cached, int64_t generated) {
    return {{"input_tokens", prompt - cached},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", cached},
            {"cache_creation", {{"ephemeral_5m_input_tokens", 0}, {"ephemeral_1h_input_tokens", 0}}},
            {"output_tokens", generated},
            {"output_tokens_details", nullptr},
            {"server_tool_use", nullptr},
            {"service_tier", "standard"},
            {"inference_geo", nullptr}};
  }

  // `stop`: null during generation.
  Json message(Json content, const Json& stop, Json usage) const {
    Json result = {{"id", id_},
                   {"type", "message"},
                   {"role", "assistant"},
                   {"model", model_},
                   {"content", std::move(content)},
                   {"stop_reason", nullptr},
                   {"stop_sequence", nullptr},
                   {"stop_details", nullptr},
                   {"container", nullptr},
                   {"usage", std::move(usage)}};
    if (stop.is_object()) result.update(stop);
    return result;
  }

  const std::string model_, id_ = new_id("msg_");
  Answers answers_;
};

} // namespace

void anthropic_messages(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::messages);
  const bool events = fields.flag("stream").value_or(false);
  const auto message = std::make_shared<Message>(service, fields);
  reply_later(response, events ? Stream::events : Stream::none, ErrorForm::anthropic,
              [events, message](Client& client) { events ? message->stream(client) : message->answer(client); });
}

void anthropic_count_tokens(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  reply(response, {{"input_tokens", generation_of(service, Fields(body, "")).prompt.size()}});
}

} // namespace ridge::server
