// POST /v1/completions: without a chat template.
#include "core/strings/utf8.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/openai.h"
#include "server/requests/fill.h"
#include "server/requests/request_fields.h"
#include "server/routes.h"

#include <algorithm>
#include <memory>

namespace ridge::server {
namespace {

constexpr size_t kMaxPrompts = 2048;

bool is_true(const Fields& body, const char* name) { // some clients send 1
  const Json* given = body.find(name);
  return given && (*given == 1 || (*given != 0 && *body.flag(name)));
}

std::vector<std::vector<int32_t>> texts_of(const Service& service, const Json& prompt, bool special, bool begins) {
  const auto encode = [&](const Json& text) { return raw_tokens(service, text.get<std::string>(), special, begins); };
  if (prompt.is_string()) return {encode(prompt)};
  if (!prompt.is_array() || prompt.empty())
    throw_invalid("prompt", "prompt: expected a string, tokens or a list of them");
  if (prompt[0].is_number()) return {token_ids(prompt, "prompt")};
  if (prompt.size() > kMaxPrompts) throw_invalid("prompt", "prompt: a list of at most {}", kMaxPrompts);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < prompt.size(); ++i)
    prompts.push_back(prompt[i].is_string() ? encode(prompt[i]) : token_ids(prompt[i], fmt::format("prompt[{}]", i)));
  return prompts;
}

// Takes a text, tokens, or a list of either. With a suffix, these come before a gap.
std::vector<std::vector<int32_t>> prompts_of(const Service& service, const Fields& body) {
  const Json& prompt = body.required("prompt");
  const std::string suffix = body.text("suffix").value_or("");
  if (!suffix.empty()) {
    if (is_true(body, "echo")) throw_invalid("echo", "echo: cannot be combined with suffix");
    text::FillText text{.suffix = service.tokenizer().encode(suffix)};
    std::vector<std::vector<int32_t>> prompts = texts_of(service, prompt, false, false);
    for (std::vector<int32_t>& one : prompts) {
      text.prefix = std::move(one);
      one = fill_prompt(service, text);
    }
    return prompts;
  }
  return texts_of(service, prompt, body.flag("parse_special").value_or(true),
                  body.flag("add_special_tokens").value_or(true));
}

int64_t logprobs_wanted(const Fields& body) {
  const Json* given = body.find("logprobs");
  if (!given || *given == false) return -1;
  if (*given == true) return 1;
  return *body.integer("logprobs", 0, core::TokenChoice::kMax);
}

class Completion final : public OpenAiReply {
 public:
  Completion(Service& service, const Fields& body) : Completion(service, body, generations(service, body)) {}

 private:
  struct Choice {
    std::string text;
    Json logprobs;
    int64_t offset = 0;
    bool echoed = false;
  };

  Completion(Service& service, const Fields& body, const std::vector<Generation>& generations)
      : OpenAiReply(service, body, {"/v1/completions", "cmpl-", "text_completion", "text_completion"}, generations),
        likely_(logprobs_wanted(body)), echo_(is_true(body, "echo")), choices_(answers()) {
    for (size_t i = 0; i < answers() && echo_; ++i) prompts_.push_back(generations[i].prompt);
  }

  static std::vector<Generation> generations(const Service& service, const Fields& body) {
    Generation generation;
    generation.sampling = service.sampling();
    take_sampling(service, body, generation);
    hold(service, answer_form(body), generation);
    generation.keep_choices = logprobs_wanted(body) >= 0;
    generation.keep_prompt_choices = generation.keep_choices && is_true(body, "echo");
    const int64_t wanted = answers_wanted(body);
    if (const auto best = body.integer("best_of", 1, INT32_MAX); best && *best != wanted)
      throw_invalid("best_of", "best_of above n is not supported; n is {}", wanted);
    std::vector<std::vector<int32_t>> prompts = prompts_of(service, body);
    if (prompts.size() * static_cast<size_t>(wanted) > kMaxPrompts)
      throw_invalid("n", "n: {} answers to each of {} prompts exceed the limit of {}", wanted, prompts.size(),
                    kMaxPrompts);
    std::vector<Generation> all;
    for (std::vector<int32_t>& prompt : prompts) {
      engine::check_prompt(prompt, service.context(), service.model().program.vocab);
      generation.prompt = std::move(prompt);
      for (Generation& copy : copies(generation, wanted)) all.push_back(std::move(copy));
    }
    return all;
  }

  Json empty_choice(size_t i) const override {
    return {{"index", i}, {"text", ""}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  }

  Json event(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) override {
    add(i, token, piece);
    Choice& choice = choices_[i];
    if (token && choice.text.empty() && choice.logprobs.is_null()) return nullptr;
    Json json = choice_json(i, token ? nullptr : reason(i));
    choice.text.clear();
    choice.logprobs = nullptr;
    return json;
  }

  void add(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) override {
    Choice& choice = choices_[i];
    if (echo_ && !choice.echoed) add_prompt(i, choice);
    choice.text += piece.content;
    if (likely_ < 0) return;
    if (token)
      add_logprobs(choice, *token->choice, true);
    else if (const auto& end = sequence(i).end_choice()) // clients count it as a token without text
      add_logprobs(choice, *end, true, false);
  }

  Json whole(size_t i) override { return choice_json(i, reason(i)); }

  Json choice_json(size_t i, const char* reason) {
    Json json = {{"index", i},
                 {"text", choices_[i].text},
                 {"logprobs", std::move(choices_[i].logprobs)},
                 {"finish_reason", nullptr}};
    if (reason) json["finish_reason"] = reason;
    return json;
  }

  void add_prompt(size_t i, Choice& choice) {
    choice.echoed = true;
    const std::vector<int32_t>& prompt = prompts_[i];
    const std::span<const int32_t> shown = std::span(prompt).subspan(prompt[0] == service().tokenizer().bos());
    choice.text += service().tokenizer().decode(shown, {.render_special = true});
    if (likely_ < 0) return;
    core::TokenChoice begin;
    begin.token = prompt[0];
    add_logprobs(choice, begin, false, shown.size() == prompt.size());
    for (const core::TokenChoice& one : sequence(i).prompt_choices()) add_logprobs(choice, one, true);
  }

  // `known`: false for a prompt's first token, which has no probability. `shown`: whether it is part of the text.
  void add_logprobs(Choice& choice, const core::TokenChoice& of, bool known, bool shown = true) const {
    Json& logprobs = choice.logprobs;
    if (logprobs.is_null())
      logprobs = {{"tokens", Json::array()},
                  {"token_logprobs", Json::array()},
                  {"top_logprobs", likely_ > 0 ? Json::array() : Json()},
                  {"text_offset", Json::array()}};
    logprobs["tokens"].push_back(name_of(of.token));
    logprobs["token_logprobs"].push_back(known ? Json(written_logprob(of.log_probability)) : Json());
    logprobs["text_offset"].push_back(choice.offset);
    if (shown) choice.offset += static_cast<int64_t>(core::utf8_length(service().tokenizer().piece(of.token)));
    if (likely_ == 0) return;
    Json top = Json::object();
    for (const core::TokenChoice::Likely& one : std::span(of.top).first(static_cast<size_t>(likely_)))
      if (one.token >= 0) top[name_of(one.token)] = written_logprob(one.log_probability);
    if (known) top[name_of(of.token)] = written_logprob(of.log_probability); // added if it is not among them
    logprobs["top_logprobs"].push_back(known ? std::move(top) : Json());
  }

  // Names are distinct even for parts of characters.
  std::string name_of(int32_t token) const {
    const std::string_view piece = service().tokenizer().piece(token);
    if (core::is_utf8(piece)) return std::string(piece);
    std::string name = "bytes:";
    for (const char byte : piece) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    return name;
  }

  const int64_t likely_;
  const bool echo_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<Choice> choices_;
};

} // namespace

void openai_completion(Service& service, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, Api::completion);
  OpenAiReply::send(std::make_shared<Completion>(service, fields), response);
}

} // namespace ridge::server
