// The markers, and the two state machines that search for them.
#include "text/chat/reasoning.h"

#include <algorithm>
#include <utility>

namespace ridge::text {

namespace {

struct Section {
  const char* open;
  const char* close;
  bool is_special; // its markers are special tokens, which no answer contains, so they count anywhere in the text
};

constexpr Section kSections[] = {
    {"<think>", "</think>", false}, // DeepSeek, Qwen, GLM, SmolLM, Nemotron, …
    {"<thinking>", "</thinking>", false},
    {"<thought>", "</thought>", false},
    {"<reasoning>", "</reasoning>", false},
    {"<seed:think>", "</seed:think>", false},            // Seed-OSS
    {"[THINK]", "[/THINK]", false},                      // Magistral, Ministral
    {"◁think▷", "◁/think▷", false},                      // Kimi
    {"<|START_THINKING|>", "<|END_THINKING|>", true},    // Command
    {"<|inner_prefix|>", "<|inner_suffix|>", true},      // Apertus
    {"<|channel>thought", "<channel|>", true},           // Gemma
    {"<|channel|>analysis<|message|>", "<|end|>", true}, // gpt-oss
};

// Markers around an answer; they are dropped.
constexpr std::string_view kDropped[] = {
    "<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>",
    "<|return|>",         "<|START_RESPONSE|>",          "<|END_RESPONSE|>",
};

// Ordinary words that are markers only where the prompt asks for them: Granite 3.2 and 3.3, told to think.
constexpr Section kPhrases{"Here is my thought process:", "Here is my response:", false};
constexpr std::string_view kResponseTags[] = {"<response>", "</response>"};
constexpr std::string_view kAskedTags = "<response></response>";

constexpr std::string_view kSpace = " \t\r\n";

// How many bytes at the end of `text` may be the beginning of `marker`.
size_t possible_start(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size)
    if (text.ends_with(marker.substr(0, size))) return size;
  return 0;
}

std::string_view trim_left(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}
std::string_view trim_right(std::string_view text) { return text.substr(0, text.find_last_not_of(kSpace) + 1); }

} // namespace

ReasoningSplitter::ReasoningSplitter(std::string_view prompt) {
  const std::string_view end = trim_right(prompt);
  for (const Section& section : kSections)
    if (end.ends_with(section.open)) close_ = section.close;
  phrases_ = prompt.find(kPhrases.open) != std::string_view::npos;
  response_tags_ = prompt.find(kAskedTags) != std::string_view::npos;
}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  Piece piece;
  buffer_ += text;
  run(piece, false);
  return piece;
}

ReasoningSplitter::Piece ReasoningSplitter::finish() {
  Piece piece;
  run(piece, true);
  return piece;
}

void ReasoningSplitter::run(Piece& piece, bool is_last) {
  while (close_      ? step_reasoning(piece, is_last)
         : at_begin_ ? step_begin(piece, is_last)
                     : step_answer(piece, is_last)) {
  }
}

// Each step returns whether another may get further.

bool ReasoningSplitter::step_begin(Piece& piece, bool is_last) {
  const std::string_view text = trim_left(buffer_);
  bool may_open = text.empty();
  const auto opens = [&](std::string_view open, const char* close) {
    may_open |= open.starts_with(text);
    if (!text.starts_with(open)) return false;
    buffer_ = text.substr(open.size());
    close_ = close;
    return true;
  };
  for (const Section& section : kSections)
    if (opens(section.open, section.close)) return true;
  if (phrases_ && opens(kPhrases.open, kPhrases.close)) return true;
  for (const std::string_view marker : kDropped)
    if (opens(marker, nullptr)) return true;
  if (response_tags_ && opens(kResponseTags[0], nullptr)) return true;
  if (may_open && !is_last) return false;
  if (after_section_) buffer_ = text;
  at_begin_ = false;
  return step_answer(piece, is_last);
}

bool ReasoningSplitter::step_reasoning(Piece& piece, bool is_last) {
  if (at_begin_) buffer_ = trim_left(buffer_);
  at_begin_ = at_begin_ && buffer_.empty();
  const std::string_view close = close_;
  if (const size_t found = buffer_.find(close); found != std::string::npos) {
    piece.reasoning += trim_right(std::string_view(buffer_).substr(0, found));
    buffer_.erase(0, found + close.size());
    close_ = nullptr;
    at_begin_ = after_section_ = true;
    return true;
  }
  const size_t held = is_last ? 0 : possible_start(buffer_, close);
  const std::string_view certain = trim_right(std::string_view(buffer_).substr(0, buffer_.size() - held));
  piece.reasoning += certain;
  buffer_.erase(0, certain.size());
  if (is_last) buffer_.clear();
  return false;
}

bool ReasoningSplitter::step_answer(Piece& piece, bool is_last) {
  size_t first = std::string::npos, size = 0, held = 0;
  const char* close = nullptr;
  const auto look_for = [&](std::string_view marker, const char* closes_with) {
    const size_t found = buffer_.find(marker);
    if (found < first) {
      first = found;
      size = marker.size();
      close = closes_with;
    }
    held = std::max(held, possible_start(buffer_, marker));
  };
  for (const Section& section : kSections)
    if (section.is_special) look_for(section.open, section.close);
  for (const std::string_view marker : kDropped) look_for(marker, nullptr);
  if (response_tags_)
    for (const std::string_view tag : kResponseTags) look_for(tag, nullptr);
  if (first != std::string::npos) {
    piece.answer += std::string_view(buffer_).substr(0, first);
    buffer_.erase(0, first + size);
    close_ = close;
    at_begin_ = close != nullptr; // the white space before a section's text goes with its marker
    return true;
  }
  if (is_last) held = 0;
  piece.answer += std::string_view(buffer_).substr(0, buffer_.size() - held);
  buffer_.erase(0, buffer_.size() - held);
  return false;
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  buffer_ += text;
  // The match that is complete first counts, not the one that begins first.
  size_t end = std::string::npos, start = 0, held = 0;
  for (const std::string& stop : stops_) {
    const size_t found = buffer_.find(stop);
    if (found != std::string::npos && (found + stop.size() < end || (found + stop.size() == end && found < start))) {
      end = found + stop.size();
      start = found;
    }
    held = std::max(held, possible_start(buffer_, stop));
  }
  if (end != std::string::npos) {
    stopped_ = true;
    std::string certain = buffer_.substr(0, start);
    buffer_.clear();
    return certain;
  }
  std::string certain = buffer_.substr(0, buffer_.size() - held);
  buffer_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::finish() { return std::exchange(buffer_, {}); }

} // namespace ridge::text
