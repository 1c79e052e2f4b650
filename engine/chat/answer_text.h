// Turns an answer's tokens into text; separates reasoning and tool calls.
#pragma once

#include "engine/calls/call_constraint.h"
#include "text/calls/call_parser.h"
#include "text/chat/reasoning.h"
#include "text/tokenizer/tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

class AnswerText {
 public:
  struct Piece {
    std::string content, reasoning;
    std::vector<text::CallParser::Delta> calls = {}; // follow the content
  };

  // The answer ends before any of `stop`. `chat_prompt` is set for chats, whose answers may contain reasoning. `calls`
  // may be null. The tokenizer must outlive it.
  AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stop,
             std::optional<std::string_view> chat_prompt, std::shared_ptr<const CallRules> calls = nullptr);

  // Call before the first token if the answer continues `text`. The answer does not include it.
  void begin_with(std::string_view text);
  // Checks the finished content. Not needed if `calls` have a schema for it.
  void check_content(const nlohmann::ordered_json& schema);

  Piece push(int32_t token);
  Piece finish(); // returns the held rest; call once
  bool stopped() const { return stops_.stopped(); }
  const std::string& stop() const { return stops_.stop(); }

  size_t calls() const { return calls_; }
  // Schema violations in finished calls and content that the grammar could not prevent, one line each.
  const std::vector<std::string>& schema_misses() const { return schema_misses_; }

  const std::string& raw() const { return raw_; } // includes reasoning markers

 private:
  Piece take(const std::string& part);
  Piece trimmed(text::ReasoningSplitter::Piece piece);
  void read_calls(Piece& piece, bool last);
  bool begins_otherwise(std::string_view content);
  void note(const Piece& piece);
  void check_answer();

  text::StreamDecoder decoder_;
  text::StopMatcher stops_;
  std::optional<text::ReasoningSplitter> splitter_;
  std::shared_ptr<const CallRules> rules_;
  std::optional<text::CallParser> parser_;
  size_t calls_ = 0;
  std::vector<text::ToolCall> begun_calls_;
  std::shared_ptr<const text::SchemaValidator> content_check_;
  std::string checked_content_;
  std::vector<std::string> schema_misses_;
  std::string start_;
  bool undecided_ = false;
  std::string raw_;
  bool begun_ = false;
};

} // namespace ridge::engine
