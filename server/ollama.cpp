// /api/chat, /api/generate and /api/show, as Ollama's clients speak: by default a stream with
// a line of JSON per piece.
#include "engine/options.h"
#include "models/model.h"
#include "server/answers.h"
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/reply.h"
#include "server/routes.h"
#include "server/tools.h"

#include <fmt/chrono.h>

#include <chrono>
#include <memory>

namespace ridge::server {
namespace {

std::string now() {
  const auto time = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto part = time.time_since_epoch() % std::chrono::seconds(1);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     part.count());
}

void take_options(const Fields& body, core::SamplingOptions& sampling) {
  const auto options = body.object("options");
  if (!options) return;
  take_numbers(*options, sampling.params);
  if (const auto last = options->integer("repeat_last_n", -1, INT32_MAX))
    sampling.params.repeat_last_n = static_cast<int32_t>(*last);
  if (const auto most = options->integer("num_predict", -2, INT32_MAX))
    sampling.max_tokens = *most; // below 0: no limit
  if (options->find("stop")) sampling.stop = options->texts("stop", kMostStops);
}

Json thinking_variable(const Fields& body) {
  Json variables = Json::object();
  if (const Json* think = body.find("think")) {
    if (think->is_boolean())
      engine::set_thinking(variables, *think);
    else // "low", "medium", "high"
      variables["reasoning_effort"] = *body.text("think");
  }
  return variables;
}

// The JSON schema that `format` holds the answer to; null: none.
Json format_schema(const Fields& body) {
  const Json* format = body.find("format");
  if (!format || *format == "") return nullptr;
  if (*format == "json") return Json::object({{"type", "object"}});
  if (!format->is_object()) throw_invalid("format", "format: expected \"json\" or a JSON schema");
  return *format;
}

Generation chat_of(const Service& service, const Fields& body) {
  const auto tools = openai_tools(body);
  return service.chat(read_messages(service, body.required("messages")), tools ? &*tools : nullptr,
                      thinking_variable(body), format_schema(body));
}

Generation text_of(const Service& service, const Fields& body) {
  const std::string prompt = body.text("prompt").value_or("");
  if (prompt.empty()) throw_invalid("prompt", "prompt: expected text");
  if (const auto suffix = body.text("suffix"); suffix && !suffix->empty())
    throw_invalid("suffix", "suffix is not supported");
  if (body.flag("raw").value_or(false)) {
    Generation generation;
    generation.prompt = service.tokenizer().encode(prompt, {.add_special = true, .parse_special = true});
    generation.sampling = service.sampling();
    if (const Json schema = format_schema(body); !schema.is_null())
      generation.sampling.json_schema = Client::to_text(schema);
    return generation;
  }
  Json messages = Json::array();
  if (const auto system = body.text("system"); system && !system->empty())
    messages.push_back({{"role", "system"}, {"content", *system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return service.chat(messages, nullptr, thinking_variable(body), format_schema(body));
}

// One request on its way. A chat's pieces are messages, a text's are the members "response" and "thinking".
class OllamaReply {
 public:
  OllamaReply(Service& service, const Fields& body, bool chat)
      : chat_(chat), model_(body.text("model").value_or(service.name())),
        answers_(service, chat ? "/api/chat" : "/api/generate", {generation_of(service, body, chat)}) {}

  void run(Client& client, bool stream) {
    std::string text, reasoning;
    CallList calls;
    const bool whole =
        answers_.follow([&] { return client.is_there(); },
                        [&](size_t, const engine::Sequence::Token*, const engine::AnswerText::Piece& piece) {
                          text += piece.content;
                          reasoning += piece.reasoning;
                          calls.add(piece.calls);
                          const bool something = !text.empty() || !reasoning.empty() || !calls.ended().empty();
                          if (!stream || !something) return;
                          client.line(with_calls(piece_json(text, reasoning, false), calls, calls.ended()));
                          text.clear(), reasoning.clear();
                        });
    if (whole) {
      Json last = piece_json(text, reasoning, true);
      if (!stream) last = with_calls(std::move(last), calls, calls.all_ended());
      last.update(end_json());
      client.line(last);
    }
  }

 private:
  static Generation generation_of(const Service& service, const Fields& body, bool chat) {
    Generation generation = chat ? chat_of(service, body) : text_of(service, body);
    take_options(body, generation.sampling);
    return generation;
  }

  Json piece_json(const std::string& text, const std::string& reasoning, bool done) const {
    Json piece = {{"model", model_}, {"created_at", now()}};
    if (chat_)
      piece["message"] = {{"role", "assistant"}, {"content", text}};
    else
      piece["response"] = text;
    if (!reasoning.empty()) (chat_ ? piece["message"] : piece)["thinking"] = reasoning;
    piece["done"] = done;
    return piece;
  }

  // Calls come whole: Ollama's clients know no parts of them.
  static Json with_calls(Json piece, const CallList& calls, const std::vector<size_t>& which) {
    for (const size_t index : which) {
      const text::ToolCall& call = calls.calls()[index];
      piece["message"]["tool_calls"].push_back(
          {{"function", {{"name", call.name}, {"arguments", arguments_of(call)}}}});
    }
    return piece;
  }

  Json end_json() const {
    const Answers::Answer& answer = answers_.all()[0];
    const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
    const bool cut = answer.stop == engine::StopReason::limit || answer.stop == engine::StopReason::context_full;
    const engine::Usage &prompt = answer.sequence->prompt_usage(), &generation = answer.sequence->generation_usage();
    return {{"done_reason", cut ? "length" : "stop"},
            {"total_duration", nanoseconds(answer.sequence->seconds_waiting() + prompt.seconds + generation.seconds)},
            {"load_duration", 0},
            {"prompt_eval_count", answers_.prompt_tokens()},
            {"prompt_eval_duration", nanoseconds(prompt.seconds)},
            {"eval_count", answers_.generated_tokens()},
            {"eval_duration", nanoseconds(generation.seconds)}};
  }

  const bool chat_;
  const std::string model_;
  Answers answers_;
};

void answer(Service& service, const HttpRequest& request, HttpResponse& response, bool chat) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  const bool stream = fields.flag("stream").value_or(true);
  const auto reply = std::make_shared<OllamaReply>(service, fields, chat);
  reply_later(response, stream ? Stream::lines : Stream::none, ErrorForm::ollama,
              [stream, reply](Client& client) { reply->run(client, stream); });
}

} // namespace

void ollama_chat(Service& service, const HttpRequest& request, HttpResponse& response) {
  answer(service, request, response, true);
}

void ollama_generate(Service& service, const HttpRequest& request, HttpResponse& response) {
  answer(service, request, response, false);
}

void ollama_show(ModelService& service, const HttpRequest&, HttpResponse& response) {
  const gguf::File& file = service.model().file;
  const core::Program& program = service.model().program;
  const std::string& family = program.architecture;
  Json info = {{"general.architecture", family},
               {"general.parameter_count", models::parameter_count(file)},
               {family + ".context_length", service.context()}};
  const auto* texts = dynamic_cast<const Service*>(&service);
  const auto* embeddings = dynamic_cast<const EmbeddingService*>(&service);
  if (embeddings) info[family + ".embedding_length"] = embeddings->embedder().width();
  reply(response, {{"template", texts ? texts->chat_template().source() : ""},
                   {"details",
                    {{"format", "gguf"},
                     {"family", family},
                     {"families", {family}},
                     {"quantization_level", models::file_type_label(file)}}},
                   {"model_info", std::move(info)},
                   {"capabilities", capabilities(file, program)}});
}

} // namespace ridge::server
