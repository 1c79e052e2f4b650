// POST /v1/responses/compact: replaces a conversation by the user's messages and the model's summary.
#include "server/responses/compaction.h"

#include "core/strings/base64.h"
#include "core/strings/utf8.h"
#include "engine/chat/compaction.h"
#include "engine/options.h"
#include "server/answers.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/openai.h"
#include "server/requests/request_fields.h"
#include "server/responses/response_messages.h"
#include "server/routes.h"
#include "text/white_space.h"

#include <ctime>
#include <memory>
#include <span>

namespace ridge::server {
namespace {

constexpr std::string_view kVersion = "ridge-compaction-1\n";
constexpr int64_t kShare = 4; // of the context: the summary, and the user's messages that are kept

// The latest messages of the user, as far as there is room; without pictures.
Json kept_messages(const Service& service, const Json& messages) {
  int64_t room = service.context() / kShare;
  Json kept = Json::array();
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i]["role"] != "user") continue;
    const Json whole = engine::without_marks(Json::array({messages[i]}), [](std::string_view) { return "data:,"; });
    std::string text;
    if (whole[0]["content"].is_string()) text = whole[0]["content"];
    if (whole[0]["content"].is_array())
      for (const Json& part : whole[0]["content"])
        if (part.contains("text")) text += part["text"];
    if (text.empty()) continue;
    room -= std::ssize(service.model().need_tokenizer().encode(text));
    if (room < 0) break;
    const Json part = {{"type", "input_text"}, {"text", text}};
    kept.insert(kept.begin(), Json{{"id", new_id("msg_")},
                                   {"type", "message"},
                                   {"status", "completed"},
                                   {"role", "user"},
                                   {"content", Json::array({part})}});
  }
  return kept;
}

class Compaction {
 public:
  Compaction(Service& service, const Fields& body)
      : pictures_(service), messages_(response_messages(service, body, pictures_, true)),
        output_(kept_messages(service, messages_)),
        answers_(service, "/v1/responses/compact", {summarized(service, body, messages_)}) {}

  void run(Client& client) {
    std::string summary;
    int64_t reasoning_tokens = 0; // of models that always reason
    const auto take = [&](size_t, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) {
      reasoning_tokens += token && !piece.reasoning.empty();
      summary += piece.content;
    };
    const bool there = answers_.follow([&] { return client.is_there(); }, take);
    if (!there) return;
    summary = text::trim(summary);
    if (summary.empty())
      throw ApiError(500, "server_error", "the model wrote no summary; the conversation is unchanged");
    output_.push_back(
        {{"id", new_id("cmp_")}, {"type", "compaction"}, {"encrypted_content", compaction_content(summary)}});
    const int64_t prompt = answers_.prompt_tokens(), generated = answers_.generated_tokens();
    client.line({{"id", new_id("resp_")},
                 {"object", "response.compaction"},
                 {"created_at", created_},
                 {"output", output_},
                 {"usage",
                  {{"input_tokens", prompt},
                   {"input_tokens_details", {{"cached_tokens", answers_.cached_tokens()}}},
                   {"output_tokens", generated},
                   {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens}}},
                   {"total_tokens", prompt + generated}}}});
  }

 private:
  static Generation summarized(const Service& service, const Fields& body, const Json& messages) {
    if (messages.empty()) throw_invalid("input", "input: no conversation to compact");
    Json variables = Json::object(); // a summary needs no reasoning
    engine::set_thinking(variables, false);
    const auto instructions = body.text("instructions");
    const int64_t most = service.context() / kShare;
    Generation generation = without_oldest(messages, service.context() - most, [&](const Json& kept) {
      Json prompt = kept;
      if (instructions) prompt.insert(prompt.begin(), Json{{"role", "system"}, {"content", *instructions}});
      prompt.push_back({{"role", "user"}, {"content", engine::compaction_request({})}});
      return service.chat(prompt, nullptr, variables);
    });
    take_sampling(service, body, generation, "max_output_tokens");
    api::SamplingOptions& sampling = generation.sampling;
    sampling.grammar = sampling.grammar_file = sampling.json_schema = "";
    generation.calls = nullptr;
    if (sampling.max_tokens < 0 || sampling.max_tokens > most) sampling.max_tokens = most;
    return generation;
  }

  const int64_t created_ = std::time(nullptr);
  RequestPictures pictures_; // keeps the pictures of messages_
  const Json messages_;
  Json output_;
  Answers answers_;
};

} // namespace

std::string compaction_content(const std::string& summary) {
  const std::string text = std::string(kVersion) + summary;
  return core::to_base64(std::as_bytes(std::span(text)));
}

std::optional<std::string> summary_of(const std::string& content) {
  const std::optional<std::string> text = core::from_base64(content);
  if (!text || !text->starts_with(kVersion) || !core::is_utf8(*text)) return std::nullopt;
  return text->substr(kVersion.size());
}

void openai_compact(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::responses);
  if (fields.flag("stream").value_or(false))
    throw_invalid("stream", "stream: a compaction is one object; leave the field out or send false");
  const auto compaction = std::make_shared<Compaction>(service, fields);
  reply_later(response, Stream::none, ErrorForm::openai, [compaction](Client& client) { compaction->run(client); });
}

} // namespace ridge::server
