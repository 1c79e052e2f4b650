#include "engine/chat/chat_request.h"

#include "core/error.h"
#include "engine/calls/call_format.h"
#include "engine/options.h"
#include "engine/pictures/picture_shelf.h"
#include "text/calls/call_values.h"
#include "text/chat/messages.h"
#include "text/chat/reasoning.h"
#include "text/json/kept_number.h"
#include "text/white_space.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace ridge::engine {
namespace {

constexpr std::string_view kEndMark = "zqendofcontinuedtextzq";

bool is_continuable(const Json& messages) {
  const Json& last = messages.back();
  return is_role(last, "assistant") && !last.contains("tool_calls");
}

// Removes what templates may refuse: non-JSON arguments, reasoning, message markers in answers.
Json simplified(Json messages) {
  for (Json& message : messages) {
    message.erase("reasoning_content");
    if (is_role(message, "assistant") &&
        message["content"].get<std::string>().find("<|channel|>") != std::string::npos) {
      text::ReasoningSplitter splitter;
      std::string answer = splitter.push(message["content"].get<std::string>()).answer;
      message["content"] = answer + splitter.finish().answer;
    }
    if (!message.contains("tool_calls")) continue;
    for (Json& call : message["tool_calls"])
      if (Json& arguments = call["function"]["arguments"]; !arguments.is_object()) arguments = Json::object();
  }
  return messages;
}

} // namespace

ChatRequests::ChatRequests(const LoadedModel& model, const text::ChatTemplate& chat_template, Json variables,
                           size_t most_known)
    : model_(model), template_(chat_template), call_format_(find_call_format(chat_template)),
      shape_(text::find_chat_shape(chat_template)), variables_(std::move(variables)), most_known_(most_known) {}

void ChatRequests::check_tools(const ToolUse& tools) const {
  call_rules_.get(call_format_, template_, tools, model_.need_tokenizer(), {}, nullptr, false);
}

Generation ChatRequests::chat(const Json& messages, const ToolUse* tools, const Json& variables, const Json& schema,
                              const LastTurn& last, const api::SamplingOptions& sampling) const {
  text::ChatOptions options;
  options.extra = variables_;
  options.extra.update(variables);
  options.add_generation_prompt = last.opens_answer;
  const bool continued = !messages.empty() && last.continued.value_or(last.opens_answer && is_continuable(messages));
  Prompt prompt = render(messages, tools ? tools->definitions : Json(), options, continued);

  Generation generation;
  generation.sampling = sampling;
  if (!schema.is_null()) generation.sampling.grammar = generation.sampling.grammar_file = "";
  const Json wanted = schema.is_null() ? answer_schema(sampling) : schema;
  if (tools || !wanted.is_null()) {
    const std::string_view opened = std::string_view(prompt.text.bytes()).substr(0, prompt.text.size() - prompt.begun);
    generation.calls = call_rules_.get(call_format_, template_, tools ? *tools : ToolUse(), model_.need_tokenizer(),
                                       opened, wanted, prompt.begun > 0);
  }
  set_prompt(generation, prompt.text);
  generation.begun = prompt.begun;
  generation.chat_prompt = std::move(prompt.text);
  return generation;
}

ChatRequests::Prompt ChatRequests::render(const Json& messages, const Json& tools, const text::ChatOptions& options,
                                          bool continued) const {
  bool empty_list = false; // some templates require an empty list
  const auto in_form = [&](const CallFormat& format, const text::ChatShape& shape, const Json& form) {
    return render_in_form(format, shape, form, empty_list ? Json::array() : tools, options, continued);
  };
  try {
    return in_form(call_format_, shape_, messages);
  } catch (const Error& refusal) {
    CallFormat as_text = call_format_;
    as_text.takes_calls = as_text.takes_results = false;
    text::ChatShape strict = shape_, strictest;
    strict.systems = strict.later_systems = strict.questions = strict.answers = strict.assistant_may_begin =
        strict.user_message_optional = false;
    strictest.parts = shape_.parts;
    const Json simple = simplified(messages);
    const std::function<Prompt()> plainer[] = {
        [&] {
          empty_list = tools.is_null() && call_format_.takes_tools;
          return in_form(call_format_, shape_, messages);
        },
        [&] { return in_form(call_format_, shape_, simple); },
        [&] { return in_form(as_text, shape_, simple); },
        [&] { return in_form(as_text, strict, simple); },
        [&] { return in_form(as_text, strictest, simple); },
    };
    for (const auto& attempt : plainer) {
      try {
        return attempt();
      } catch (const Error&) {
      }
    }
    throw refusal;
  }
}

ChatRequests::Prompt ChatRequests::render_in_form(const CallFormat& format, const text::ChatShape& shape,
                                                  const Json& messages, const Json& tools,
                                                  const text::ChatOptions& options, bool continued) const {
  CallMessages fitted = fit_messages(format, messages, tools);
  fitted.messages = text::fit_shape(shape, std::move(fitted.messages));
  text::ChatOptions all = options;
  all.tools = fitted.tools;
  if (continued) return render_continued(shape, std::move(fitted.messages), std::move(all));
  return {render_fitted(shape, std::move(fitted.messages), all), 0};
}

// Renders the message as an earlier turn and cuts the prompt after its text, or else appends the text to an answer's
// introduction.
ChatRequests::Prompt ChatRequests::render_continued(const text::ChatShape& shape, Json messages,
                                                    text::ChatOptions options) const {
  const std::string content = messages.back()["content"].is_string() ? messages.back()["content"] : "";
  const std::string reasoning = messages.back().value("reasoning_content", "");
  if (!content.empty()) {
    Json marked = messages;
    marked.back()["content"] = content + std::string(kEndMark);
    options.add_generation_prompt = false;
    const text::jinja::TaintedText whole = render_fitted(shape, std::move(marked), options);
    const std::string_view bytes = whole.bytes();
    const size_t end = bytes.rfind(kEndMark);
    const size_t shown = text::trim_left(content).size();
    if (end != std::string_view::npos && end >= shown && bytes.substr(0, end).ends_with(text::trim_left(content)))
      return {whole.part(bytes.substr(0, end)), shown};
  }
  messages.erase(messages.size() - 1);
  options.add_generation_prompt = true;
  text::jinja::TaintedText prompt = render_fitted(shape, std::move(messages), options);
  const size_t opened = prompt.size();
  const text::ReasoningMarkers markers = text::find_reasoning_markers(template_.source());
  const bool reasons = text::ReasoningSplitter(prompt.bytes()).in_reasoning();
  if (!reasoning.empty() && !reasons && !markers.open.empty()) prompt.append(std::string(markers.open) + "\n");
  if (!reasoning.empty() && (reasons || !markers.open.empty())) prompt.append(reasoning, true);
  if (!content.empty() && (reasons || (!reasoning.empty() && !markers.open.empty())))
    prompt.append("\n" + std::string(markers.close) + "\n\n");
  prompt.append(content, true);
  return {prompt, prompt.size() - opened};
}

text::jinja::TaintedText ChatRequests::render_fitted(const text::ChatShape& shape, Json messages,
                                                     const text::ChatOptions& options) const {
  text::rename_members(shape, messages);
  return render_chat(model_, template_, messages, options);
}

std::vector<int32_t> ChatRequests::tokens_of(const text::jinja::TaintedText& prompt) const {
  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  std::shared_ptr<const KnownText> longest;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& known : known_)
      if (known->begins(prompt) && (!longest || known->size() > longest->size())) longest = known;
  }
  return longest ? longest->continued(tokenizer, prompt) : chat_tokens(tokenizer, prompt);
}

void ChatRequests::set_prompt(Generation& generation, const text::jinja::TaintedText& prompt) const {
  if (!PictureShelf::has_mark(prompt.bytes())) {
    generation.prompt = tokens_of(prompt);
    return;
  }
  if (!model_.pictures) throw_error("an image of this conversation is no longer available: send it again");
  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  PicturePrompt read = model_.pictures->prompt_of(
      tokenizer, prompt, [&](const text::jinja::TaintedText& begin) { return chat_tokens(tokenizer, begin); });
  generation.prompt = std::move(read.tokens);
  generation.pictures = std::move(read.pictures);
}

void ChatRequests::remember(const text::jinja::TaintedText& prompt, std::string_view answer,
                            std::span<const int32_t> tokens) {
  if (PictureShelf::has_mark(prompt.bytes())) return; // the text does not determine the pictures
  auto known = std::make_shared<const KnownText>(model_.need_tokenizer(), prompt, answer, tokens);
  const std::scoped_lock lock(mutex_);
  known_.push_front(std::move(known));
  if (known_.size() > most_known_) known_.pop_back();
}

KnownText::KnownText(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt, std::string_view answer,
                     std::span<const int32_t> tokens)
    : text_(prompt.bytes()), prompt_bytes_(prompt.size()), data_(prompt.data().begin(), prompt.data().end()),
      tokens_(tokens.begin(), tokens.end()) {
  text_ += answer;
  if (!tokens_.empty() && tokenizer.is_eog(tokens_.back())) tokens_.pop_back();
}

bool KnownText::begins(const text::jinja::TaintedText& prompt) const {
  if (text_.empty() || !prompt.bytes().starts_with(text_)) return false;
  const auto start = prompt.part(std::string_view(prompt.bytes()).substr(0, prompt_bytes_));
  return std::ranges::equal(start.data(), data_);
}

std::vector<int32_t> KnownText::continued(const text::Tokenizer& tokenizer,
                                          const text::jinja::TaintedText& prompt) const {
  const auto rest = prompt.part(std::string_view(prompt.bytes()).substr(text_.size()));
  const auto more = tokenizer.encode(rest.bytes(), {.parse_special = true, .data = rest.data()});
  std::vector<int32_t> tokens = tokens_;
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

bool is_role(const Json& message, const char* role) { return message["role"] == role; }

text::jinja::TaintedText render_chat(const LoadedModel& model, const text::ChatTemplate& chat_template,
                                     const Json& messages, text::ChatOptions options) {
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  const auto text_of = [&](int32_t id) { return id >= 0 ? std::string(tokenizer.token_text(id)) : std::string(); };
  options.bos_token = text_of(tokenizer.bos());
  options.eos_token = text_of(tokenizer.eos());
  return chat_template.render_tainted(messages, options);
}

std::vector<int32_t> chat_tokens(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt) {
  const std::string_view text = prompt.bytes(), bos = tokenizer.bos() >= 0 ? tokenizer.token_text(tokenizer.bos()) : "";
  // Templates that write BOS must not get a second one.
  const auto data = prompt.data();
  const bool has_bos = !bos.empty() && text.starts_with(bos) && (data.empty() || data[0].begin >= bos.size());
  std::vector<int32_t> tokens = tokenizer.encode(text, {.add_special = !has_bos, .parse_special = true, .data = data});
  if (tokenizer.add_eos() && !has_bos && !tokens.empty() && tokens.back() == tokenizer.eos()) tokens.pop_back();
  return tokens;
}

namespace {

std::string key_of(const ToolUse& use, const CallStart& start, const nlohmann::ordered_json& answer_schema) {
  nlohmann::ordered_json key = {use.required, use.parallel, start.in_reasoning, start.open, start.close};
  key.push_back(answer_schema);
  for (const text::Tool& tool : use.tools) key.push_back({tool.name, tool.parameters});
  return text::compact_json(key);
}

} // namespace

std::shared_ptr<const CallRules> CallRulesCache::get(const CallFormat& format, const text::ChatTemplate& chat_template,
                                                     const ToolUse& use, const text::Tokenizer& tokenizer,
                                                     std::string_view prompt,
                                                     const nlohmann::ordered_json& answer_schema, bool begun) {
  const bool bound = use.required || !answer_schema.is_null();
  return rules_.get(
      key_of(use, bound && !begun ? call_start(chat_template, prompt) : CallStart(), answer_schema),
      [&] { return make_call_rules(format, chat_template, use, tokenizer, prompt, answer_schema, begun); },
      [](const std::string& key, const CallRules& rules) { return 4 * key.size() + rules.grammar->bytes(); });
}

} // namespace ridge::engine
