// Converts conversations to generations, and these to sequences.
#pragma once

#include "api/requests.h"
#include "core/lru_cache.h"
#include "engine/calls/call_constraint.h"
#include "engine/chat/answer_text.h"
#include "engine/loading/loaded_model.h"
#include "engine/pictures/text_pictures.h"
#include "engine/sequences/constraint.h"
#include "text/chat/chat_shape.h"
#include "text/chat/chat_template.h"
#include "text/grammar/grammar_cache.h"
#include "text/jinja/tainted_text.h"
#include "text/tokenizer/tokenizer.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Caches call rules with the states of their grammars, since making them may take longer than starting an answer.
class CallRulesCache {
 public:
  static constexpr size_t kMaxBytes = 128u << 20; // evicts the least recently used

  // Returns what make_call_rules() returns. All calls must use the same format, template and tokenizer. Thread-safe.
  std::shared_ptr<const CallRules> get(const CallFormat& format, const text::ChatTemplate& chat_template,
                                       const ToolUse& use, const text::Tokenizer& tokenizer, std::string_view prompt,
                                       const nlohmann::ordered_json& answer_schema, bool begun);

 private:
  core::LruCache<CallRules> rules_{kMaxBytes};
};

using Json = nlohmann::ordered_json;

bool is_role(const Json& message, const char* role);

// Fills in the options' BOS and EOS texts. Throws Error if the template refuses.
text::jinja::TaintedText render_chat(const LoadedModel& model, const text::ChatTemplate& chat_template,
                                     const Json& messages, text::ChatOptions options);

// Only the template yields control tokens: "<|im_end|>" in a message is ordinary text.
std::vector<int32_t> chat_tokens(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt);

// Remembers the tokens of earlier text: tokenizing the answer again could give other tokens, and lose the cache from
// there on.
class KnownText {
 public:
  KnownText() = default;
  // `answer` includes markers. Drops a final end token, since templates write the end of a turn.
  KnownText(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt, std::string_view answer,
            std::span<const int32_t> tokens);

  // Also compares which bytes are data: a message that spells out earlier turns does not get their tokens.
  bool begins(const text::jinja::TaintedText& prompt) const;
  std::vector<int32_t> continued(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt) const;
  size_t size() const { return text_.size(); }

 private:
  std::string text_;
  size_t prompt_bytes_ = 0;
  std::vector<text::ByteSpan> data_;
  std::vector<int32_t> tokens_;
};

struct Generation {
  std::vector<int32_t> prompt;
  TextPictures pictures = {};
  std::optional<text::jinja::TaintedText> chat_prompt; // null: a plain text is continued
  api::SamplingOptions sampling;
  bool keep_choices = false;
  bool choices_after_samplers = false;
  bool keep_prompt_choices = false;
  bool reuse = true;
  bool copied = false;
  int64_t min_tokens = 0;
  std::vector<int32_t> stop_tokens = {};
  int64_t priority = 0;
  int32_t stream = -1; // as in SequenceRequest
  std::shared_ptr<const CallRules> calls = nullptr;
  size_t begun = 0; // bytes at the end of chat_prompt that belong to the answer
};

// Thread-safe. The model must outlive it.
class SequenceRequests {
 public:
  explicit SequenceRequests(const LoadedModel& model) : model_(model), texts_(model.need_tokenizer()) {}

  // Applies a GBNF grammar, else a chat's tools or schema, else a text's schema. Throws Error for an invalid one. End
  // tokens end the text, unless the request ignores them and nothing restricts the text.
  SequenceRequest sequence(const Generation& generation) const;
  // The same for the same text. Throws Error if it does not parse.
  std::shared_ptr<const text::SharedGrammar> grammar(const std::string& gbnf) const;
  AnswerText text_of(const Generation& generation) const;

 private:
  std::unique_ptr<Constraint> constraint_of(const Generation& generation) const;
  void end_text(std::vector<int32_t>& prompt) const;
  std::vector<int32_t> end_tokens(bool model_ends, const std::vector<int32_t>& sorted_stops) const;
  std::shared_ptr<const text::TokenTable> token_table() const;

  const LoadedModel& model_;
  const VocabularyTexts texts_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const text::TokenTable> token_table_;
  mutable text::GrammarCache grammars_;
};

struct LastTurn {
  // Whether to continue the last message; null: an assistant's without calls, if an answer may begin.
  std::optional<bool> continued = std::nullopt;
  bool opens_answer = true;
};

// Thread-safe. Model and template must outlive it.
class ChatRequests {
 public:
  ChatRequests(const LoadedModel& model, const text::ChatTemplate& chat_template, Json variables, size_t most_known);

  // Answers `messages` (see text::read_messages()). `variables` extend the model's own. `schema` restricts an answer
  // without calls; if null, `sampling` may have one. Throws Error if the template refuses every form, and if no grammar
  // can express parameters or schema.
  Generation chat(const Json& messages, const ToolUse* tools, const Json& variables, const Json& schema,
                  const LastTurn& last, const api::SamplingOptions& sampling) const;
  // Remembers a complete answer, so that later prompts continue its tokens.
  void remember(const text::jinja::TaintedText& prompt, std::string_view answer, std::span<const int32_t> tokens);

  const text::ChatTemplate& chat_template() const { return template_; }
  const CallFormat& call_format() const { return call_format_; }
  void check_tools(const ToolUse& tools) const; // throws Error if no grammar can express them

 private:
  struct Prompt {
    text::jinja::TaintedText text;
    size_t begun = 0;
  };
  Prompt render(const Json& messages, const Json& tools, const text::ChatOptions& options, bool continued) const;
  Prompt render_in_form(const CallFormat& format, const text::ChatShape& shape, const Json& messages, const Json& tools,
                        const text::ChatOptions& options, bool continued) const;
  Prompt render_continued(const text::ChatShape& shape, Json messages, text::ChatOptions options) const;
  text::jinja::TaintedText render_fitted(const text::ChatShape& shape, Json messages,
                                         const text::ChatOptions& options) const;
  std::vector<int32_t> tokens_of(const text::jinja::TaintedText& prompt) const;
  void set_prompt(Generation& generation, const text::jinja::TaintedText& prompt) const;

  const LoadedModel& model_;
  const text::ChatTemplate& template_;
  const CallFormat call_format_;
  const text::ChatShape shape_;
  mutable CallRulesCache call_rules_;
  const Json variables_;
  const size_t most_known_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const KnownText>> known_;
};

} // namespace ridge::engine
