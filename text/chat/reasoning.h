// Filters for generated text that arrives in pieces of any size: one separates reasoning from the answer, one finds
// stop strings. Both hold back only text that may still become a marker.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// Separates a model's reasoning from its answer by the markers that model families write around it:
// <think>…</think>, [THINK]…[/THINK] and similar ones. White space next to the markers belongs to neither part. A
// <think> in the middle of an answer is just text.
//
// gpt-oss and Muse write several messages, each with a header:
// <|start|>assistant<|channel|>analysis<|message|>…<|end|>. The channel "analysis" and the recipient "self" are
// reasoning. A call of a tool is part of the answer, with its recipient before it: "to=functions.weather {…}", or,
// where the answer's calls are read, with a header of one form: <|start|>assistant to=functions.weather<|message|>{…}.
class ReasoningSplitter {
 public:
  struct Piece {
    std::string reasoning;
    std::string answer;
  };

  // `prompt` is the rendered prompt: where it ends with the opening of a section, the text begins inside.
  // `calls`: a call's header is kept for the parser of calls.
  explicit ReasoningSplitter(std::string_view prompt = {}, bool calls = false);

  // The text that follows goes on from `text`, which is no part of any piece.
  void begin_with(std::string_view text);
  Piece push(std::string_view text); // what became certain
  Piece finish();                    // what is still buffered; call once, when the text ends

  bool in_reasoning() const { return close_ != nullptr; }
  std::string_view reasoning_end() const { return close_ ? close_ : ""; } // the marker that ends the section

 private:
  void run(Piece& piece, bool is_last);
  bool step_header(Piece& piece, bool is_last);
  void begin_message(Piece& piece, std::string_view header);
  bool step_begin(Piece& piece, bool is_last);
  bool step_reasoning(Piece& piece, bool is_last);
  bool step_answer(Piece& piece, bool is_last);

  std::string buffer_;          // not yet certain
  const char* close_ = nullptr; // the marker that ends the section we are in
  bool at_begin_ = true;        // nothing but white space since the text or the last section began
  bool after_section_ = false;  // that white space goes with the section's end
  bool phrases_ = false;        // the prompt asks for "Here is my thought process:" …
  bool answer_tags_ = false;    // … or for tags around the answer, or they follow a section
  bool in_header_ = false;      // of a message; buffer_ begins with what follows opened_by_
  bool messages_ = false;       // there was a header
  bool calls_ = false;          // headers of calls are kept
  bool answered_ = false;       // an answer began, so that a further message's stands apart from it
  std::string_view opened_by_;  // the marker that began the header; empty: the prompt ends with it
};

// The markers of the section that a model may begin its answer with, as far as its template's source tells; empty:
// none.
struct ReasoningMarkers {
  std::string_view open, close;
};
ReasoningMarkers find_reasoning_markers(std::string_view template_source);

// Finds the first of several strings in a stream.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops); // empty strings never match

  std::string push(std::string_view text);          // the text before the stop string, as far as it is certain
  std::string finish();                             // what is still buffered, when the text ends by itself
  bool stopped() const { return stopped_; }         // nothing is passed on any more
  const std::string& stop() const { return stop_; } // that was found, once stopped

 private:
  std::vector<std::string> stops_;
  std::string buffer_, stop_;
  bool stopped_ = false;
};

} // namespace ridge::text
