// Keeps the calls of an answer within the grammar of its tools, and the rest of it free or within a JSON schema.
#pragma once

#include "engine/calls/call_format.h"
#include "engine/constraint.h"
#include "text/calls/tool.h"
#include "text/chat/reasoning.h"
#include "text/schema/schema_validator.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// The tools of one request.
struct ToolUse {
  nlohmann::ordered_json definitions; // as templates take them: a list in the OpenAI form
  std::vector<text::Tool> tools;      // that may be called
  bool required = false;              // the answer must call one
  bool parallel = true;               // it may hold several calls
};

// The tools in a file's text: a list in the OpenAI form, or an object with one under "tools", beside which there may be
// "tool_choice": "required" and "parallel_tool_calls": false. `label` stands for the file. Throws Error for what is
// malformed.
ToolUse read_tools(const std::string& json_text, const std::string& label);
// Takes a function's name, description and parameters; an absent schema means no parameters. Throws Error for a name
// that is none or is there already, and for parameters that are no schema of an object.
void add_tool(ToolUse& use, const nlohmann::ordered_json& function);

// What the answers to one prompt are held to.
struct CallRules {
  const text::CallSyntax* syntax;
  std::vector<text::Tool> tools; // none: only the answer's schema counts
  bool bound;                    // the grammar binds from the start, or from the end of reasoning
  bool json;                     // an answer that calls nothing is JSON
  text::Grammar grammar;
  std::vector<std::string> triggers;
  // What the grammar may have left out of the schemas: one for each tool, and one for the answer where it is JSON.
  std::vector<text::SchemaValidator> tool_checks;
  std::optional<text::SchemaValidator> answer_check;
};
// Where an answer begins, as far as the rules depend on it: whether the prompt has opened its reasoning, and else the
// markers by which the answer may begin with reasoning.
struct CallStart {
  bool in_reasoning = false;
  std::string open, close;
};
CallStart call_start(const text::ChatTemplate& chat_template, std::string_view prompt);
// `prompt`: the text that the answer continues. `begun`: its beginning is given, so that no reasoning comes first.
// `answer_schema`: of an answer that calls nothing; null: it is free. It
// counts only where no call is required. Throws Error where the answer's schema is none (text::clean_schema()).
std::shared_ptr<const CallRules> make_call_rules(const CallFormat& format, const text::ChatTemplate& chat_template,
                                                 const ToolUse& use, const text::Tokenizer& tokenizer,
                                                 std::string_view prompt,
                                                 const nlohmann::ordered_json& answer_schema = nullptr,
                                                 bool begun = false);

// Rules for answers that call nothing and match a grammar, in GBNF. Throws Error where it does not parse.
std::shared_ptr<const CallRules> make_grammar_rules(const CallFormat& format, const std::string& gbnf);

// Text is free until a trigger is written outside of reasoning; from there to the end of the answer the grammar binds.
// Where a call is required, or the answer has a schema, it binds from the start, or from the end of the reasoning that
// the prompt has opened.
class CallConstraint final : public Constraint {
 public:
  // The tokenizer must outlive it.
  CallConstraint(std::shared_ptr<const CallRules> rules, std::shared_ptr<const text::TokenTable> vocabulary,
                 const text::Tokenizer& tokenizer, std::string_view prompt);

  // Before the first token: the answer goes on from `text`, as far as the grammar takes that for a beginning.
  void begin_with(std::string_view text);
  bool allows(int32_t token) override;
  void apply(std::span<float> logits) override;
  void accept(int32_t token) override;

 private:
  // The text from a trigger on that `piece` completes; empty: none.
  std::string opened_by(std::string_view piece) const;
  // What of `piece` stands behind the end of the reasoning that it completes; null: it does not.
  std::optional<std::string> behind_reasoning(std::string_view piece) const;

  const std::shared_ptr<const CallRules> rules_;
  const std::shared_ptr<const text::TokenTable> vocabulary_;
  const text::Tokenizer& tokenizer_;
  text::GrammarMatcher matcher_;
  text::ReasoningSplitter splitter_;
  std::string tail_; // of the text so far; of a syntax whose calls begin the answer: all of it, while it may be one
  bool bound_;       // to the grammar
  bool searching_ = true;
};

} // namespace ridge::engine
