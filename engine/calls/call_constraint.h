// Restricts calls to the tools' grammar; other text is free or follows a JSON schema.
#pragma once

#include "engine/calls/call_format.h"
#include "engine/sequences/constraint.h"
#include "text/calls/tool.h"
#include "text/chat/reasoning.h"
#include "text/schema/schema_validator.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

struct ToolUse {
  nlohmann::ordered_json definitions; // for templates, in OpenAI's form
  std::vector<text::Tool> tools;
  bool required = false;
  bool parallel = true;
};

// Reads an OpenAI list, or an object with "tools" and optionally "tool_choice": "required" and "parallel_tool_calls":
// false. `label` names the file in errors. Throws Error if malformed.
ToolUse read_tools(const std::string& json_text, const std::string& label);
// `function`: name, description and parameters. Throws Error for an invalid or duplicate name, or parameters that are
// no object schema.
void add_tool(ToolUse& use, const nlohmann::ordered_json& function);

struct CallRules {
  const text::CallSyntax* syntax;
  std::vector<text::Tool> tools;
  bool bound;
  bool json;
  std::shared_ptr<const text::SharedGrammar> grammar;
  std::vector<std::string> triggers;
  // They check what grammars cannot express.
  std::vector<text::SchemaValidator> tool_checks;
  std::optional<text::SchemaValidator> answer_check;
};
// Whether the prompt opened the reasoning; otherwise, the markers with which the answer may open it.
struct CallStart {
  bool in_reasoning = false;
  std::string open, close;
};
CallStart call_start(const text::ChatTemplate& chat_template, std::string_view prompt);
// `begun`: the answer's beginning is given, so it has no reasoning. `answer_schema` (may be null) restricts an answer
// without calls; it is ignored if a call is required. Throws Error for an invalid schema.
std::shared_ptr<const CallRules> make_call_rules(const CallFormat& format, const text::ChatTemplate& chat_template,
                                                 const ToolUse& use, const text::Tokenizer& tokenizer,
                                                 std::string_view prompt,
                                                 const nlohmann::ordered_json& answer_schema = nullptr,
                                                 bool begun = false);

// Rules for answers without calls that match a grammar.
std::shared_ptr<const CallRules> make_grammar_rules(const CallFormat& format,
                                                    std::shared_ptr<const text::SharedGrammar> grammar);

// Text is free until a trigger occurs outside of reasoning; the grammar then applies to the end. With a required call
// or a schema it applies from the start, or from the end of the reasoning that the prompt opened.
class CallConstraint final : public Constraint {
 public:
  // The tokenizer must outlive it.
  CallConstraint(std::shared_ptr<const CallRules> rules, const std::shared_ptr<const text::TokenTable>& vocabulary,
                 const text::Tokenizer& tokenizer, std::string_view prompt);

  // Call before the first token if the answer continues `text`, as far as the grammar accepts it.
  void begin_with(std::string_view text);
  bool allows(int32_t token) override;
  void apply(std::span<float> logits) override;
  void accept(int32_t token) override;
  std::vector<int32_t> forced(int64_t most) override {
    return bound_ ? forced_tokens(matcher_, tokenizer_, most) : std::vector<int32_t>();
  }

 private:
  std::string opened_by(std::string_view piece) const;
  std::optional<std::string> behind_reasoning(std::string_view piece) const;

  const std::shared_ptr<const CallRules> rules_;
  const text::Tokenizer& tokenizer_;
  text::GrammarMatcher matcher_;
  text::ReasoningSplitter splitter_;
  std::string tail_;
  bool bound_;
  bool searching_ = true;
};

} // namespace ridge::engine
