#include "text/chat/reasoning.h"

#include "text/white_space.h"

#include <algorithm>
#include <utility>

namespace ridge::text {
namespace {

struct Section {
  const char* open;
  const char* close;
  bool is_special; // special tokens never occur in answers, so they count anywhere
};

constexpr Section kSections[] = {
    {"<think>", "</think>", false}, // DeepSeek, Qwen, GLM, SmolLM, Nemotron, …
    {"<thinking>", "</thinking>", false},
    {"<thought>", "</thought>", false},
    {"<reasoning>", "</reasoning>", false},
    {"<seed:think>", "</seed:think>", false},                          // Seed-OSS
    {"[THINK]", "[/THINK]", false},                                    // Magistral, Ministral
    {"◁think▷", "◁/think▷", false},                                    // Kimi 1.5
    {"<mm:think>", "</mm:think>", false},                              // MiniMax M3
    {"<think:opensource>", "</think:opensource>", false},              // Hunyuan 3
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", false}, // Apriel
    {"<|START_THINKING|>", "<|END_THINKING|>", true},                  // Command
    {"<|inner_prefix|>", "<|inner_suffix|>", true},                    // Apertus
    {"<|channel>thought", "<channel|>", true},                         // Gemma 4
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>", true},           // Kimi K3
    {"<|think|>", "<|end|>", true},                                    // Solar Open
};

constexpr std::string_view kDropped[] = {
    "<|return|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|close|>message<|sep|>",
    "<|begin|>assistant",
    "<|content|>",
    "[END FINAL RESPONSE]",
};

// Messages of gpt-oss and Muse. A header may begin with its channel.
constexpr std::string_view kHeaderOpens[] = {"<|start|>", "<|channel|>"};
constexpr std::string_view kHeaderClose = "<|message|>";
constexpr std::string_view kMessageEnds[] = {"<|end|>", "<|eom|>", "<|call|>"};
constexpr std::string_view kPromptHeader = "<|start|>assistant";                   // the model continues the header
constexpr std::string_view kHeaderParts[] = {"<|channel|>", " to=", kHeaderClose}; // which begins with one of these
constexpr std::string_view kFunctions = "functions.";
constexpr size_t kMaxHeaderBytes = 200; // longer text is no header

// Ordinary words, markers only if the prompt requests them (Granite 3.2 and 3.3).
constexpr Section kPhrases{"Here is my thought process:", "Here is my response:", false};
// Tags around answers, if the prompt requests them (Granite) or after a section (Ernie, Hunyuan).
constexpr std::string_view kAnswerTags[] = {"<response>", "</response>", "<answer>", "</answer>"};
constexpr std::string_view kAskedTags = "<response></response>";

} // namespace

ReasoningSplitter::ReasoningSplitter(std::string_view prompt, bool calls) : calls_(calls) {
  const std::string_view end = trim_right(prompt);
  for (const Section& section : kSections)
    if (end.ends_with(section.open)) close_ = section.close;
  phrases_ = prompt.find(kPhrases.open) != std::string_view::npos;
  answer_tags_ = prompt.find(kAskedTags) != std::string_view::npos;
  in_header_ = end.ends_with(kPromptHeader);
  if (end.ends_with(kHeaderClose)) {
    Piece nothing;
    const size_t start = end.rfind(kHeaderOpens[0]);
    if (start != std::string_view::npos) begin_message(nothing, end.substr(start));
  }
}

void ReasoningSplitter::begin_with(std::string_view text) {
  push(text);
  if (!trim_left(buffer_).empty() && !in_reasoning()) only_space_so_far_ = in_header_ = false;
  buffer_.clear();
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
  while (in_header_           ? step_header(piece, is_last)
         : close_             ? step_reasoning(piece, is_last)
         : only_space_so_far_ ? step_begin(piece, is_last)
                              : step_answer(piece, is_last)) {
  }
  has_answer_ = has_answer_ || !piece.answer.empty();
}

bool ReasoningSplitter::step_header(Piece& piece, bool is_last) {
  const std::string_view text = buffer_;
  const auto may_begin = [&](std::string_view part) { return text.starts_with(part) || part.starts_with(text); };
  const bool plausible = !opened_by_.empty() || std::ranges::any_of(kHeaderParts, may_begin);
  const size_t end = text.find(kHeaderClose);
  if (plausible && end <= kMaxHeaderBytes) {
    const std::string header = std::string(opened_by_) + buffer_.substr(0, end);
    buffer_.erase(0, end + kHeaderClose.size());
    begin_message(piece, header);
    return true;
  }
  const bool may_end =
      plausible && end == std::string_view::npos && text.size() < kMaxHeaderBytes + kHeaderClose.size();
  if (may_end && !is_last) return false;
  in_header_ = false;
  if (may_end) buffer_.clear();
  return true;
}

void ReasoningSplitter::begin_message(Piece& piece, std::string_view header) {
  in_header_ = false;
  messages_ = only_space_so_far_ = after_section_ = true;
  std::string_view recipient;
  if (const size_t at = header.find(" to="); at != std::string_view::npos) {
    recipient = header.substr(at + 4);
    recipient = recipient.substr(0, recipient.find_first_of(" <"));
  }
  const bool to_tool = !recipient.empty() && recipient != "self" && recipient != "user" && recipient != "assistant";
  if (recipient == "self") {
    close_ = "<|eom|>";
  } else if (!to_tool && header.find("<|channel|>analysis") != std::string_view::npos) {
    close_ = "<|end|>";
  } else if (to_tool && calls_) {
    if (recipient.starts_with(kFunctions))
      piece.answer.append(kPromptHeader).append(" to=").append(recipient).append(kHeaderClose);
    only_space_so_far_ = false;
  } else {
    if (has_answer_ || !piece.answer.empty()) piece.answer += "\n\n";
    if (to_tool) (piece.answer += "to=").append(recipient) += ' ';
  }
}

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
  for (const std::string_view marker : kHeaderOpens)
    if (opens(marker, nullptr)) {
      in_header_ = true;
      opened_by_ = marker;
      return true;
    }
  for (const Section& section : kSections)
    if (opens(section.open, section.close)) return true;
  if (phrases_ && opens(kPhrases.open, kPhrases.close)) return true;
  for (const std::string_view marker : kDropped)
    if (opens(marker, nullptr)) return true;
  if (answer_tags_ || after_section_)
    for (const std::string_view tag : {kAnswerTags[0], kAnswerTags[2]})
      if (opens(tag, nullptr)) return answer_tags_ = true;
  if (may_open && !is_last) return false;
  if (after_section_) buffer_ = text;
  only_space_so_far_ = false;
  return step_answer(piece, is_last);
}

bool ReasoningSplitter::step_reasoning(Piece& piece, bool is_last) {
  if (only_space_so_far_) buffer_ = trim_left(buffer_);
  only_space_so_far_ = only_space_so_far_ && buffer_.empty();
  const std::string_view close = close_;
  if (const size_t found = buffer_.find(close); found != std::string::npos) {
    piece.reasoning += trim_right(std::string_view(buffer_).substr(0, found));
    buffer_.erase(0, found + close.size());
    close_ = nullptr;
    only_space_so_far_ = after_section_ = true;
    return true;
  }
  const size_t held = is_last ? 0 : partial_mark_bytes(buffer_, close);
  const std::string_view certain = trim_right(std::string_view(buffer_).substr(0, buffer_.size() - held));
  piece.reasoning += certain;
  buffer_.erase(0, certain.size());
  if (is_last) buffer_.clear();
  return false;
}

bool ReasoningSplitter::step_answer(Piece& piece, bool is_last) {
  size_t first = std::string::npos, size = 0, held = 0;
  const char* close = nullptr;
  std::string_view header;
  const auto look_for = [&](std::string_view marker, const char* closes_with, bool opens_header = false) {
    const size_t found = buffer_.find(marker);
    if (found < first) {
      first = found;
      size = marker.size();
      close = closes_with;
      header = opens_header ? marker : std::string_view();
    }
    held = std::max(held, partial_mark_bytes(buffer_, marker));
  };
  for (const Section& section : kSections)
    if (section.is_special) look_for(section.open, section.close);
  for (const std::string_view marker : kDropped) look_for(marker, nullptr);
  if (answer_tags_)
    for (const std::string_view tag : kAnswerTags) look_for(tag, nullptr);
  for (const std::string_view marker : kHeaderOpens) look_for(marker, nullptr, true);
  if (messages_)
    for (const std::string_view marker : kMessageEnds) look_for(marker, nullptr);
  if (first != std::string::npos) {
    piece.answer += std::string_view(buffer_).substr(0, first);
    buffer_.erase(0, first + size);
    close_ = close;
    in_header_ = !header.empty();
    opened_by_ = header;
    only_space_so_far_ = close != nullptr; // drops white space at a section's start
    return true;
  }
  if (is_last) held = 0;
  piece.answer += std::string_view(buffer_).substr(0, buffer_.size() - held);
  buffer_.erase(0, buffer_.size() - held);
  return false;
}

ReasoningMarkers find_reasoning_markers(std::string_view source) {
  if (source.find("<|channel|>analysis") != source.npos) return {"<|channel|>analysis<|message|>", "<|end|>"};
  for (const Section& section : kSections)
    if (source.find(section.open) != source.npos) return {section.open, section.close};
  return {};
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  buffer_ += text;
  // The match that completes first wins.
  size_t end = std::string::npos, start = 0, held = 0;
  for (const std::string& stop : stops_) {
    const size_t found = buffer_.find(stop);
    if (found != std::string::npos && (found + stop.size() < end || (found + stop.size() == end && found < start))) {
      end = found + stop.size();
      start = found;
    }
    held = std::max(held, partial_mark_bytes(buffer_, stop));
  }
  if (end != std::string::npos) {
    stopped_ = true;
    stop_ = buffer_.substr(start, end - start);
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
