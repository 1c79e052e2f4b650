// Streaming filters that separate reasoning and find stop strings. They hold back only text that may become a marker.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// Separates reasoning from the answer by markers such as <think>…</think> and [THINK]…[/THINK], and drops white space
// next to them. A <think> within an answer is text.
//
// gpt-oss and Muse write messages with headers: <|start|>assistant<|channel|>analysis<|message|>…<|end|>. Channel
// "analysis" and recipient "self" are reasoning. Tool calls belong to the answer: "to=functions.weather {…}", or with
// `calls`: <|start|>assistant to=functions.weather<|message|>{…}.
class ReasoningSplitter {
 public:
  struct Piece {
    std::string reasoning;
    std::string answer;
  };

  // If the rendered `prompt` ends with an opening marker, the text begins inside. `calls`: keep call headers for the
  // parser.
  explicit ReasoningSplitter(std::string_view prompt = {}, bool calls = false);

  // The output continues `text`, which is not in any piece.
  void begin_with(std::string_view text);
  Piece push(std::string_view text);
  Piece finish(); // call once at the end

  bool in_reasoning() const { return close_ != nullptr; }
  std::string_view reasoning_end() const { return close_ ? close_ : ""; }

 private:
  void run(Piece& piece, bool is_last);
  bool step_header(Piece& piece, bool is_last);
  void begin_message(Piece& piece, std::string_view header);
  bool step_begin(Piece& piece, bool is_last);
  bool step_reasoning(Piece& piece, bool is_last);
  bool step_answer(Piece& piece, bool is_last);

  std::string buffer_;
  const char* close_ = nullptr;   // closing marker of the current section
  bool only_space_so_far_ = true; // only white space since the text or section began
  bool after_section_ = false;    // that white space follows a section
  bool phrases_ = false;          // the prompt requests "Here is my thought process:"
  bool answer_tags_ = false;      // or answer tags, or they follow a section
  bool in_header_ = false;        // buffer_ continues after opened_by_
  bool messages_ = false;
  bool calls_ = false;
  bool has_answer_ = false;
  std::string_view opened_by_;
};

// Implied by a template's source; empty: none.
struct ReasoningMarkers {
  std::string_view open, close;
};
ReasoningMarkers find_reasoning_markers(std::string_view template_source);

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops); // ignores empty strings

  std::string push(std::string_view text); // returns text before a possible stop string
  std::string finish();                    // the rest
  bool stopped() const { return stopped_; }
  const std::string& stop() const { return stop_; }

 private:
  std::vector<std::string> stops_;
  std::string buffer_, stop_;
  bool stopped_ = false;
};

} // namespace ridge::text
