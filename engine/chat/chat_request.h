// From a conversation to what is generated: the one way for the chat on the terminal, `ridge run`, the window and the
// server. ChatRequests makes the prompt and the rules of an answer, SequenceRequests the sequence that gives it.
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

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ridge::engine {

// A text that is to be generated: a chat's answer, or how a text goes on.
struct Generation {
  std::vector<int32_t> prompt;
  TextPictures pictures = {};                          // of the prompt
  std::optional<text::jinja::TaintedText> chat_prompt; // a chat's prompt as text; none: a text is continued
  core::SamplingOptions sampling;
  bool keep_choices = false;
  bool choices_after_samplers = false; // of what the samplers left over
  bool keep_prompt_choices = false;
  bool reuse = true;                                // of what was evaluated of the prompt before
  bool copied = false;                              // from the one before: another answer to its prompt
  int64_t min_tokens = 0;                           // before which no answer ends by itself
  std::vector<int32_t> stop_tokens = {};            // that end an answer beside the model's own
  int64_t priority = 0;                             // lower ones go first
  std::shared_ptr<const CallRules> calls = nullptr; // of the tools that a chat's answer may call, or its schema
  size_t begun = 0;                                 // bytes at the end of chat_prompt that the answer begins with
};

// Makes sequences of generations, for one model, which must outlive it. May be used by several threads.
class SequenceRequests {
 public:
  explicit SequenceRequests(const LoadedModel& model) : model_(model), texts_(model.need_tokenizer()) {}

  // With what the text is held to: a grammar in GBNF before anything else, a chat's tools or schema, or the schema of
  // a text. It ends with a token that ends texts, unless that is to be ignored and nothing holds it. Throws Error for a
  // grammar or schema that is none.
  SequenceRequest sequence(const Generation& generation) const;
  AnswerText text_of(const Generation& generation) const;

 private:
  std::unique_ptr<Constraint> constraint_of(const Generation& generation) const;
  void end_text(std::vector<int32_t>& prompt) const;
  std::vector<int32_t> end_tokens(bool model_ends, const std::vector<int32_t>& sorted_stops) const;
  std::shared_ptr<const text::TokenTable> token_table() const;

  const LoadedModel& model_;
  const VocabularyTexts texts_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const text::TokenTable> token_table_; // made for the first request that needs it
};

// How a conversation's last turn is rendered.
struct LastTurn {
  // Whether the last message is continued; nothing: if it is an assistant's without calls, and an answer may begin.
  std::optional<bool> continued = std::nullopt;
  bool opens_answer = true; // the prompt ends with what introduces an answer
};

// Makes generations of conversations, for one model and template, which must outlive it. May be used by several
// threads.
class ChatRequests {
 public:
  // `variables`: further ones for the template. `most_known`: answers whose tokens are remembered.
  ChatRequests(const LoadedModel& model, const text::ChatTemplate& chat_template, Json variables, size_t most_known);

  // The answer to `messages`, which are as text::read_messages() gives them. They are put into the form that the
  // template takes. `tools`: null: none. `variables`: beside the model's own. `schema`: of an answer that calls
  // nothing, before one that `sampling` has; null: that one, or none. Throws Error where the template takes the
  // conversation in no form, and for parameters and schemas that no grammar can describe.
  Generation chat(const Json& messages, const ToolUse* tools, const Json& variables, const Json& schema,
                  const LastTurn& last, const core::SamplingOptions& sampling) const;
  // A chat's answer is whole, and a later prompt that begins with it is to continue its tokens.
  void remember(const text::jinja::TaintedText& prompt, std::string_view answer, std::span<const int32_t> tokens);

  const text::ChatTemplate& chat_template() const { return template_; }
  const CallFormat& call_format() const { return call_format_; }
  void check_tools(const ToolUse& tools) const; // throws Error for parameters that no grammar can describe

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
  std::deque<std::shared_ptr<const KnownText>> known_; // answers, the latest first
};

} // namespace ridge::engine
