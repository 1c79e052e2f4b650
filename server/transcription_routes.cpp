// POST /v1/audio/transcriptions (OpenAI). The prompt asks in words, or with the token that the model was trained with.
// Models give no times, so a subtitle spans the whole sound.
#include "engine/options.h"
#include "server/answers.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/requests/form.h"
#include "server/requests/pictures.h"
#include "server/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>

namespace ridge::server {
namespace {

constexpr std::string_view kTextBegins = "<asr_text>"; // follows the language in answers of Qwen3-ASR

enum class TranscriptForm : uint8_t { json, text, srt, vtt, verbose };

TranscriptForm transcript_form(const std::vector<FormPart>& form) {
  constexpr std::array<std::pair<std::string_view, TranscriptForm>, 5> kForms = {
      {{"json", TranscriptForm::json},
       {"text", TranscriptForm::text},
       {"srt", TranscriptForm::srt},
       {"vtt", TranscriptForm::vtt},
       {"verbose_json", TranscriptForm::verbose}}};
  const std::string_view wanted = field_of(form, "response_format").value_or("json");
  const auto found = std::ranges::find(kForms, wanted, [](const auto& row) { return row.first; });
  if (found == kForms.end())
    throw_invalid("response_format", "response_format: expected json, text, srt, vtt or verbose_json");
  return found->second;
}

std::string time_of(double seconds, char point) {
  const auto all = static_cast<int64_t>(std::llround(1000 * seconds));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", all / 3'600'000, all / 60'000 % 60, all / 1000 % 60, point,
                     all % 1000);
}

// An empty line would end a subtitle.
std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

class Transcript {
 public:
  explicit Transcript(bool has_language) : waits_(has_language) {}

  std::string add(const std::string& piece) {
    std::string more = piece;
    if (waits_) {
      before_ += piece;
      const size_t begin = before_.find(kTextBegins);
      if (begin == before_.npos) return {};
      waits_ = false;
      more = before_.substr(begin + kTextBegins.size());
    }
    text_ += more;
    return more;
  }
  // An answer without the prefix stays as it is.
  const std::string& whole() const { return waits_ ? before_ : text_; }

 private:
  bool waits_;
  std::string before_, text_;
};

class Transcription {
 public:
  Transcription(Service& service, const std::vector<FormPart>& form)
      : form_(transcript_form(form)), language_(field_of(form, "language").value_or("")),
        is_trained_(service.tokenizer().encode(kTextBegins, {.parse_special = true}).size() == 1), media_(service),
        transcript_(is_trained_), answers_(service, "/v1/audio/transcriptions", {generation(service, form)}) {}

  const char* content_type() const {
    const bool is_json = form_ == TranscriptForm::json || form_ == TranscriptForm::verbose;
    return is_json ? "application/json" : form_ == TranscriptForm::vtt ? "text/vtt" : "text/plain; charset=utf-8";
  }

  void answer(Client& client) {
    if (follow(client, [](const std::string&) {})) client.write(written());
  }

  void stream(Client& client) {
    const bool ended = follow(client, [&](const std::string& more) {
      if (!more.empty()) client.event({{"type", "transcript.text.delta"}, {"delta", more}});
    });
    if (ended) client.event({{"type", "transcript.text.done"}, {"text", transcript_.whole()}, {"usage", usage()}});
  }

 private:
  template <typename Take>
  bool follow(Client& client, const Take& take) {
    return answers_.follow([&] { return client.is_there(); },
                           [&](size_t, const auto*, const auto& piece) { take(transcript_.add(piece.content)); });
  }

  Generation generation(Service& service, const std::vector<FormPart>& form) {
    const std::string mark = media_.add_sound(*field_of(form, "file"), "file");
    Json variables = Json::object();
    engine::set_thinking(variables, false);
    const Json messages = {{{"role", "user"}, {"content", mark + (is_trained_ ? "" : question(form))}}};
    Generation made = service.chat(read_messages(service, messages), nullptr, variables);
    made.sampling.params.temp = temperature(form);
    return made;
  }

  std::string question(const std::vector<FormPart>& form) const {
    std::string text = "Transcribe this recording word for word. Answer with what is said, and nothing else.";
    if (!language_.empty()) text += fmt::format(" Its language is {}.", language_);
    if (const auto prompt = field_of(form, "prompt"); prompt && !prompt->empty())
      text += fmt::format(" What may help: {}", *prompt);
    return text;
  }

  static float temperature(const std::vector<FormPart>& form) {
    const std::string_view given = field_of(form, "temperature").value_or("0");
    float number = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
    if (error != std::errc() || end != given.data() + given.size() || !(number >= 0 && number <= 2))
      throw_invalid("temperature", "temperature: expected a number from 0 to 2");
    return number;
  }

  Json usage() const {
    const int64_t prompt = answers_.prompt_tokens(), generated = answers_.generated_tokens();
    return {{"type", "tokens"},
            {"input_tokens", prompt},
            {"output_tokens", generated},
            {"total_tokens", prompt + generated}};
  }

  std::string written() const {
    const std::string& text = transcript_.whole();
    const double seconds = media_.sound_seconds();
    switch (form_) {
    case TranscriptForm::text: return text + "\n";
    case TranscriptForm::srt:
      return fmt::format("1\n{} --> {}\n{}\n", time_of(0, ','), time_of(seconds, ','), on_one_line(text));
    case TranscriptForm::vtt:
      return fmt::format("WEBVTT\n\n{} --> {}\n{}\n", time_of(0, '.'), time_of(seconds, '.'), on_one_line(text));
    case TranscriptForm::json: return Client::to_text({{"text", text}, {"usage", usage()}}) + "\n";
    case TranscriptForm::verbose: break;
    }
    const Json segment = {{"id", 0}, {"start", 0.0}, {"end", seconds}, {"text", text}};
    return Client::to_text({{"task", "transcribe"},
                            {"language", language_.empty() ? Json() : Json(language_)},
                            {"duration", seconds},
                            {"text", text},
                            {"segments", Json::array({segment})},
                            {"usage", usage()}}) +
           "\n";
  }

  const TranscriptForm form_;
  const std::string language_;
  const bool is_trained_;
  RequestPictures media_;
  Transcript transcript_;
  Answers answers_;
};

void check_form(const Service& service, const std::vector<FormPart>& form) {
  if (!service.senses().sounds)
    throw_invalid("model", "the model {} does not accept audio: use one with an audio encoder", service.name());
  if (!field_of(form, "file")) throw_invalid("file", "file: is missing");
  for (const char* list : {"timestamp_granularities[]", "timestamp_granularities"})
    if (field_of(form, list).value_or("segment") != "segment")
      throw_invalid(list, "{}: this model does not provide word timestamps", list);
}

} // namespace

void openai_transcription(Service& service, const HttpRequest& request, HttpResponse& response) {
  const std::vector<FormPart> form = read_form(request);
  check_form(service, form);
  const bool streams = field_of(form, "stream").value_or("false") == "true";
  const auto made = std::make_shared<Transcription>(service, form);
  reply_later(response, streams ? Stream::events : Stream::none, ErrorForm::openai,
              [made, streams](Client& client) { streams ? made->stream(client) : made->answer(client); });
  if (!streams) response.content_type = made->content_type();
}

} // namespace ridge::server
