// Text that marks bytes from input strings (user messages) as data. String operations propagate the marks per byte;
// only template bytes can become control tokens.
//
// Taint follows values, not decisions, numbers or booleans. wordwrap, striptags, and title and capitalize of mixed text
// mark the whole result if any input is data.
#pragma once

#include "text/byte_span.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text::jinja {

class TaintedText {
 public:
  TaintedText() = default;
  explicit TaintedText(std::string bytes, bool is_data = false) : bytes_(std::move(bytes)) {
    if (is_data) mark_all();
  }

  const std::string& bytes() const { return bytes_; }
  std::span<const ByteSpan> data() const { return data_; } // sorted, not adjacent
  bool has_data() const { return !data_.empty(); }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  size_t held_bytes() const { return bytes_.size() + data_.size() * sizeof(ByteSpan); }

  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  void append(std::string_view bytes, bool is_data = false);
  void append(const TaintedText& from, size_t begin, size_t bytes);
  TaintedText& operator+=(char own) { return bytes_ += own, *this; }
  TaintedText& operator+=(std::string_view own) { return bytes_ += own, *this; }
  TaintedText& operator+=(const TaintedText& text) { return append(text, 0, text.size()), *this; }

  // `view` points into bytes().
  TaintedText part(std::string_view view) const;
  void mark_all();

  // Calls change(bytes) per stretch of data or template text. Only for context-free changes.
  template <typename Change>
  TaintedText map(Change change) const {
    TaintedText out;
    size_t at = 0;
    const auto own_until = [&](size_t end) {
      if (end > at) out.append(change(std::string_view(bytes_).substr(at, end - at)));
    };
    for (const ByteSpan& span : data_) {
      own_until(span.begin);
      out.append(change(std::string_view(bytes_).substr(span.begin, span.end - span.begin)), true);
      at = span.end;
    }
    own_until(bytes_.size());
    return out;
  }

 private:
  std::string bytes_;
  std::vector<ByteSpan> data_;
};

// Whether a string is data. `path`: keys from the outermost, without list indices.
using IsData = bool (*)(std::span<const std::string_view> path, std::string_view text);

} // namespace ridge::text::jinja
