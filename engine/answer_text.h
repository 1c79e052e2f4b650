// The text of an answer, made from its tokens as they come: whole characters, cut at stop strings, reasoning and calls
// of tools apart.
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
  struct Piece { // what a token completed; both may be empty
    std::string content, reasoning;
    std::vector<text::CallParser::Delta> calls = {}; // parts of calls, in order; they come after the content
  };

  // `chat_prompt`: the text of a chat's prompt, of whose answer sections such as <think>…</think> are reasoning;
  // without it a text is continued as it is. The answer ends before any of `stop`. `calls`: of the tools that a chat's
  // answer may call; null: none. The tokenizer must outlive it.
  AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stop,
             std::optional<std::string_view> chat_prompt, std::shared_ptr<const CallRules> calls = nullptr);

  // Before the first token: the answer goes on from `text`, which is no part of it.
  void begin_with(std::string_view text);
  // The content is JSON that a schema is to allow. With `calls` it is so where they have a schema for it.
  void check_content(const nlohmann::ordered_json& schema);

  Piece push(int32_t token);
  Piece finish(); // what is still held back; call once, when no token follows
  bool stopped() const { return stops_.stopped(); }
  const std::string& stop() const { return stops_.stop(); } // the text that stopped it

  size_t calls() const { return calls_; } // that have ended
  // What is wrong with calls that have ended, and with content that has: what their grammar had to leave out of their
  // schemas. A line for each.
  const std::vector<std::string>& schema_misses() const { return schema_misses_; }

  const std::string& raw() const { return raw_; } // as the model wrote it, markers of reasoning included

 private:
  Piece take(const std::string& part);
  Piece trimmed(text::ReasoningSplitter::Piece piece);
  void read_calls(Piece& piece, bool last);
  bool begins_otherwise(std::string_view content);
  void note(const Piece& piece);
  void check_answer();

  text::StreamDecoder decoder_;
  text::StopMatcher stops_;
  std::optional<text::ReasoningSplitter> splitter_; // of a chat
  std::shared_ptr<const CallRules> rules_;
  std::optional<text::CallParser> parser_;
  size_t calls_ = 0;
  std::vector<text::ToolCall> begun_calls_;                    // as far as they are written
  std::shared_ptr<const text::SchemaValidator> content_check_; // null: the content is free
  std::string checked_content_;                                // as far as it is written
  std::vector<std::string> schema_misses_;
  std::string start_; // of the content, while it is open whether it becomes a call or JSON
  bool undecided_ = false;
  std::string raw_;
  bool begun_ = false; // the content of a chat's answer
};

} // namespace ridge::engine
