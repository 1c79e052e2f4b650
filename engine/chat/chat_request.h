// Converts conversations to generations, and these to sequences.
#pragma once

#include "core/requests.h"
#include "engine/answer_text.h"
#include "engine/calls/call_rules_cache.h"
#include "engine/chat/chat_prompt.h"
#include "engine/chat/known_text.h"
#include "engine/constraint.h"
#include "engine/loaded_model.h"
#include "engine/pictures/text_pictures.h"
#include "text/chat/chat_shape.h"
#include "text/chat/chat_template.h"
#include "text/grammar/grammar_cache.h"

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ridge::engine {

struct Generation {
  std::vector<int32_t> prompt;
  TextPictures pictures = {};
  std::optional<text::jinja::TaintedText> chat_prompt; // null: a plain text is continued
  core::SamplingOptions sampling;
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
                  const LastTurn& last, const core::SamplingOptions& sampling) const;
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
