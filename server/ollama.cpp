// /api/chat and /api/generate (Ollama): JSON lines by default. Requests without message or prompt load or unload the
// model.
#include "engine/options.h"
#include "server/answers.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/openai.h"
#include "server/requests/fill.h"
#include "server/requests/pictures.h"
#include "server/requests/request_fields.h"
#include "server/requests/sampling_fields.h"
#include "server/routes.h"
#include "server/tools.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <utility>

namespace ridge::server {
namespace {

std::string now() {
  const auto time = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto part = time.time_since_epoch() % std::chrono::seconds(1);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     part.count());
}

void take_options(const Fields& body, api::SamplingOptions& sampling) {
  const auto options = body.object("options");
  if (!options) return;
  take_numbers(*options, sampling.params);
  if (const auto most = options->integer("num_predict", -2, INT32_MAX)) sampling.max_tokens = *most > 0 ? *most : -1;
  if (options->find("stop")) sampling.stop = options->texts("stop", kMaxStops);
}

Json thinking_variable(const Fields& body) {
  Json variables = Json::object();
  if (const Json* think = body.find("think")) {
    if (think->is_boolean())
      engine::set_thinking(variables, *think);
    else
      variables["reasoning_effort"] = *body.text("think");
  }
  return variables;
}

Json format_schema(const Fields& body) {
  const Json* format = body.find("format");
  if (!format || *format == "") return nullptr;
  if (*format == "json") return Json::object({{"type", "object"}});
  if (!format->is_object()) throw_invalid("format", "format: expected \"json\" or a JSON schema");
  return *format;
}

Generation chat_of(const Service& service, const Fields& body) {
  const auto tools = openai_tools(body);
  RequestPictures pictures(service);
  const Json messages = pictures.put(body.required("messages"), "messages");
  return service.chat(read_messages(service, messages), tools ? &*tools : nullptr, thinking_variable(body),
                      format_schema(body));
}

Generation text_of(const Service& service, const Fields& body) {
  const std::string prompt = body.text("prompt").value_or("");
  if (prompt.empty()) throw_invalid("prompt", "prompt: expected a string");
  const std::string suffix = body.text("suffix").value_or("");
  if (body.flag("raw").value_or(false) || !suffix.empty()) {
    const text::Tokenizer& tokenizer = service.tokenizer();
    Generation generation;
    generation.prompt = suffix.empty() ? raw_tokens(service, prompt, true, true)
                                       : fill_prompt(service, {tokenizer.encode(prompt), tokenizer.encode(suffix)});
    generation.sampling = service.sampling();
    if (const Json schema = format_schema(body); !schema.is_null())
      generation.sampling.json_schema = Client::to_text(schema);
    return generation;
  }
  Json messages = Json::array();
  if (const auto system = body.text("system"); system && !system->empty())
    messages.push_back({{"role", "system"}, {"content", *system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  RequestPictures pictures(service);
  if (const Json* images = body.find("images")) {
    messages.back()["images"] = *images;
    messages = read_messages(service, pictures.put(std::move(messages), "messages"));
  }
  return service.chat(messages, nullptr, thinking_variable(body), format_schema(body));
}

// If images were ignored, the answer would change.
void refuse_images(const Fields& body) {
  const auto refuse = [](const Fields& fields) {
    const Json* images = fields.find("images");
    if (images && !(images->is_array() && images->empty()))
      throw_invalid(fields.path_of("images"), "{}: this server takes no images", fields.path_of("images"));
  };
  refuse(body);
  const Json* messages = body.find("messages");
  for (size_t i = 0; messages && messages->is_array() && i < messages->size(); ++i)
    if ((*messages)[i].is_object()) refuse(Fields((*messages)[i], fmt::format("messages[{}]", i)));
}

// Reads a number of seconds or a duration ("1h30m"). Negative: forever. Null: not given.
std::optional<double> keep_alive(const Fields& body) {
  const Json* given = body.find("keep_alive");
  if (!given) return std::nullopt;
  constexpr double kForever = std::numeric_limits<double>::infinity();
  const auto clamped = [](double seconds) { return seconds < 0 ? kForever : seconds; };
  if (given->is_number()) return clamped(given->get<double>());
  const std::string text = body.text("keep_alive").value_or("");
  static const std::map<std::string, double, std::less<>> kUnits = {
      {"", 1}, {"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  const bool negative = text.starts_with('-');
  double seconds = 0;
  const char *at = text.data() + negative, *const end = text.data() + text.size();
  do {
    double number = 0;
    const auto [behind, error] = std::from_chars(at, end, number, std::chars_format::fixed);
    const char* const next = std::find_if(behind, end, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    const auto unit = kUnits.find(std::string_view(behind, next));
    if (error != std::errc() || behind == at || unit == kUnits.end())
      throw_invalid("keep_alive", "keep_alive: expected seconds, or a duration such as \"10m\"");
    seconds += number * unit->second;
    at = next;
  } while (at < end);
  return clamped(negative ? -seconds : seconds);
}

bool is_empty(const Fields& body, bool chat) {
  const Json* content = body.find(chat ? "messages" : "prompt");
  return !content || *content == "" || (content->is_array() && content->empty());
}

// Pieces are messages in chats, otherwise the members "response" and "thinking".
class OllamaReply {
 public:
  OllamaReply(Service& service, const Fields& body, bool chat)
      : service_(service), chat_(chat), model_(body.text("model").value_or(service.name())), likely_(likely_of(body)),
        answers_(service, chat ? "/api/chat" : "/api/generate", {generation_of(service, body, chat)}) {}

  void run(Client& client, bool stream) {
    std::string text, reasoning;
    CallList calls;
    const bool whole =
        answers_.follow([&] { return client.is_there(); },
                        [&](size_t, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) {
                          if (token && likely_ >= 0)
                            logprobs_.push_back(logprobs_of(service_, *token->choice, likely_));
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
    generation.keep_choices = likely_of(body) >= 0;
    return generation;
  }

  static int64_t likely_of(const Fields& body) {
    const int64_t likely = likely_wanted(body).value_or(0);
    return body.flag("logprobs").value_or(false) || likely > 0 ? likely : -1;
  }

  Json piece_json(const std::string& text, const std::string& reasoning, bool done) {
    Json piece = {{"model", model_}, {"created_at", now()}};
    if (chat_)
      piece["message"] = {{"role", "assistant"}, {"content", text}};
    else
      piece["response"] = text;
    if (!reasoning.empty()) (chat_ ? piece["message"] : piece)["thinking"] = reasoning;
    piece["done"] = done;
    if (!logprobs_.empty()) piece["logprobs"] = std::exchange(logprobs_, Json::array());
    return piece;
  }

  // Clients expect calls as a whole.
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
    const engine::Usage &prompt = answer.sequence->prompt_usage(), &generation = answer.sequence->generation_usage();
    return {{"done_reason", answer.is_cut() ? "length" : "stop"},
            {"total_duration", nanoseconds(answer.sequence->seconds_waiting() + prompt.seconds + generation.seconds)},
            {"load_duration", 0},
            {"prompt_eval_count", answers_.prompt_tokens()},
            {"prompt_eval_duration", nanoseconds(prompt.seconds)},
            {"eval_count", answers_.generated_tokens()},
            {"eval_duration", nanoseconds(generation.seconds)}};
  }

  const Service& service_;
  const bool chat_;
  const std::string model_;
  const int64_t likely_;
  Json logprobs_ = Json::array();
  Answers answers_;
};

void load(Models& models, const HttpRequest& request, const Fields& body, bool chat, std::optional<double> keep,
          HttpResponse& response) {
  const auto name = body.text("model");
  const bool goes = keep == 0;
  std::string model = name.value_or("");
  if (goes) {
    models.unload_when_unused(name);
  } else {
    const ModelService::Use use = models.use(name, false, request.is_there);
    if (keep) use.service().keep_for(*keep);
    if (model.empty()) model = use.service().name();
  }
  Json json = {{"model", model}, {"created_at", now()}};
  if (chat)
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  else
    json["response"] = "";
  json.update({{"done", true}, {"done_reason", goes ? "unload" : "load"}});
  reply(response, json);
}

void answer(Models& models, const HttpRequest& request, HttpResponse& response, bool chat) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  const std::optional<double> keep = keep_alive(fields);
  if (is_empty(fields, chat)) return load(models, request, fields, chat, keep, response);
  models.with(fields.text("model"), request.is_there, [&](ModelService& model) {
    Service& service = service_as<Service>(model);
    if (!service.senses().pictures || fields.flag("raw").value_or(false)) refuse_images(fields);
    check_fields(service, fields, Api::ollama);
    if (const auto options = fields.object("options")) check_fields(service, *options, Api::options);
    const bool stream = fields.flag("stream").value_or(true);
    const auto reply = std::make_shared<OllamaReply>(service, fields, chat);
    if (keep) service.keep_for(*keep);
    reply_later(response, stream ? Stream::lines : Stream::none, ErrorForm::ollama,
                [stream, reply](Client& client) { reply->run(client, stream); });
  });
}

} // namespace

void ollama_chat(Models& models, const HttpRequest& request, HttpResponse& response) {
  answer(models, request, response, true);
}

void ollama_generate(Models& models, const HttpRequest& request, HttpResponse& response) {
  answer(models, request, response, false);
}

} // namespace ridge::server
