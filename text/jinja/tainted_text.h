// Text with taint: which of its bytes are data (they come from the strings that a template was given, such as a user's
// message) and which are the template's own. Every operation on the strings of a template carries the taint along byte
// by byte, so both are known in the finished prompt, and only the template's own bytes can become control tokens.
//
// The taint follows values, not decisions: text that a template writes because of what a message says is its own.
// Numbers and booleans carry no taint. Operations that rearrange text too freely to follow each byte (wordwrap,
// striptags; title and capitalize of mixed text) mark their whole result as data where any of their input is.
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
  std::span<const ByteSpan> data() const { return data_; } // in order, with template bytes between any two
  bool has_data() const { return !data_.empty(); }
  bool is_all_data() const { return data_.size() == 1 && data_[0].end - data_[0].begin == bytes_.size(); }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  size_t held_bytes() const { return bytes_.size() + data_.size() * sizeof(ByteSpan); }

  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  void append(std::string_view bytes, bool is_data = false);
  void append(const TaintedText& from, size_t begin, size_t bytes); // with their taint
  TaintedText& operator+=(char own) { return bytes_ += own, *this; }
  TaintedText& operator+=(std::string_view own) { return bytes_ += own, *this; }
  TaintedText& operator+=(const TaintedText& text) { return append(text, 0, text.size()), *this; }

  // `view` lies in bytes().
  TaintedText part(std::string_view view) const;
  void mark_all();

  // change(bytes) of each stretch of data and of each stretch between, in order. For a change that treats every
  // character alike wherever it stands.
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

// Says whether a string of the variables is data. `path`: the keys from the outermost one to the string; the numbers of
// list items are left out.
using IsData = bool (*)(std::span<const std::string_view> path, std::string_view text);

} // namespace ridge::text::jinja
