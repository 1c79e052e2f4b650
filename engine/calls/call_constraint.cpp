#include "engine/calls/call_constraint.h"

#include "core/error.h"
#include "text/calls/call_grammar.h"
#include "text/calls/call_parser.h"
#include "text/schema/schema.h"
#include "text/white_space.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace ridge::engine {
namespace {

constexpr size_t kTailBytes = 64; // kept to search again with later text; longer than any trigger

} // namespace

CallStart call_start(const text::ChatTemplate& chat_template, std::string_view prompt) {
  if (text::ReasoningSplitter(prompt).in_reasoning()) return {.in_reasoning = true};
  const text::ReasoningMarkers markers = text::find_reasoning_markers(chat_template.source());
  const std::string_view end = text::trim_right(prompt);
  if (markers.open.empty() || end.ends_with(markers.close)) return {};
  return {false, std::string(markers.open), std::string(markers.close)};
}

std::shared_ptr<const CallRules> make_call_rules(const CallFormat& format, const text::ChatTemplate& chat_template,
                                                 const ToolUse& use, const text::Tokenizer& tokenizer,
                                                 std::string_view prompt, const nlohmann::ordered_json& answer_schema,
                                                 bool begun) {
  text::CallGrammarOptions options{.parallel = use.parallel};
  const bool has_schema = !use.required && !answer_schema.is_null();
  nlohmann::ordered_json schema;
  if (has_schema) {
    schema = text::clean_schema(answer_schema);
    options.answer_schema = &schema;
  }
  const bool bound = use.required || has_schema;
  const CallStart start = bound && !begun ? call_start(chat_template, prompt) : CallStart();
  options.reasoning_open = start.open;
  options.reasoning_close = start.close;
  auto rules =
      std::make_shared<CallRules>(CallRules{format.syntax, use.tools, bound, has_schema,
                                            std::make_shared<const text::SharedGrammar>(text::grammar_from_tools(
                                                *format.syntax, use.tools, options, &tokenizer)),
                                            text::call_triggers(*format.syntax, use.tools)});
  for (const text::Tool& tool : use.tools) rules->tool_checks.emplace_back(tool.parameters);
  if (has_schema) rules->answer_check.emplace(std::move(schema));
  return rules;
}

std::shared_ptr<const CallRules> make_grammar_rules(const CallFormat& format,
                                                    std::shared_ptr<const text::SharedGrammar> grammar) {
  return std::make_shared<const CallRules>(CallRules{format.syntax, {}, true, false, std::move(grammar), {}});
}

CallConstraint::CallConstraint(std::shared_ptr<const CallRules> rules,
                               const std::shared_ptr<const text::TokenTable>& vocabulary,
                               const text::Tokenizer& tokenizer, std::string_view prompt)
    : rules_(std::move(rules)), tokenizer_(tokenizer), matcher_(rules_->grammar->masks(vocabulary)),
      splitter_(prompt, true), bound_(rules_->bound && !splitter_.in_reasoning()) {
  if (rules_->syntax->messages) tail_ = prompt.substr(prompt.size() - std::min(prompt.size(), kTailBytes));
}

void CallConstraint::begin_with(std::string_view text) {
  if (bound_) {
    if (matcher_.allows_text(text)) matcher_.accept_text(text);
    return;
  }
  splitter_.begin_with(text);
  bound_ = rules_->bound && !splitter_.in_reasoning();
  tail_ += text.substr(text.size() - std::min(text.size(), kTailBytes));
  if (rules_->syntax->at_start && !text::trim_left(text).empty() && !splitter_.in_reasoning()) searching_ = false;
}

std::string CallConstraint::opened_by(std::string_view piece) const {
  if (!searching_ || splitter_.in_reasoning()) return {};
  const std::string text = tail_ + std::string(piece);
  if (rules_->syntax->at_start) {
    const std::string_view start = text::trim_left(text);
    const bool opens = std::ranges::any_of(rules_->triggers, [&](const auto& t) { return start.starts_with(t); });
    return opens ? std::string(start) : std::string();
  }
  size_t first = std::string::npos;
  for (const std::string& trigger : rules_->triggers) {
    const size_t from = tail_.size() - std::min(tail_.size(), trigger.size() - 1);
    first = std::min(first, text.find(trigger, from));
  }
  return first == std::string::npos ? std::string() : text.substr(first);
}

std::optional<std::string> CallConstraint::behind_reasoning(std::string_view piece) const {
  const std::string_view close = splitter_.reasoning_end();
  const std::string text = tail_ + std::string(piece);
  const size_t found = text.find(close, tail_.size() - std::min(tail_.size(), close.size() - 1));
  if (found == std::string::npos) return std::nullopt;
  return text.substr(found + close.size());
}

bool CallConstraint::allows(int32_t token) {
  if (bound_) return matcher_.allows(token);
  if (token < 0 || token >= tokenizer_.vocab_size()) return false;
  if (tokenizer_.is_eog(token)) return !rules_->bound;
  const std::string_view piece = tokenizer_.piece(token);
  if (rules_->bound) {
    const auto rest = behind_reasoning(piece);
    return !rest || matcher_.allows_text(*rest);
  }
  const std::string call = opened_by(piece);
  return call.empty() || matcher_.allows_text(call);
}

void CallConstraint::apply(std::span<float> logits) {
  if (bound_) return matcher_.apply(logits);
  for (size_t token = 0; token < logits.size(); ++token)
    if (!allows(static_cast<int32_t>(token))) logits[token] = -std::numeric_limits<float>::infinity();
}

void CallConstraint::accept(int32_t token) {
  if (bound_) return matcher_.accept(token);
  if (!allows(token)) throw_error("token {} cannot start a tool call here", token);
  const std::string_view piece = tokenizer_.piece(token);
  const auto bind = [&](const std::string& text) {
    matcher_.accept_text(text);
    bound_ = true;
  };
  if (rules_->bound) {
    if (const auto rest = behind_reasoning(piece)) return bind(*rest);
  } else if (const std::string call = opened_by(piece); !call.empty()) {
    return bind(call);
  }
  splitter_.push(piece);
  tail_ += piece;
  if (!rules_->syntax->at_start) {
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  } else if (searching_) {
    const std::string_view start = text::trim_left(tail_);
    searching_ = std::ranges::any_of(rules_->triggers, [&](const auto& t) { return t.starts_with(start); });
    if (!searching_) tail_.clear();
  }
}

} // namespace ridge::engine
