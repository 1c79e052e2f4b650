#include "text/markdown/formulas.h"

#include <algorithm>

namespace ridge::text {
namespace {

constexpr size_t kLongestInline = 1000, kLongestDisplay = 4000; // bytes to search for the closing mark

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Finder {
 public:
  explicit Finder(std::string_view source) : source_(source) {}

  std::vector<FormulaPlace> all() {
    while (at_ < source_.size()) {
      if (at_ == 0 || source_[at_ - 1] == '\n') {
        if (const size_t fence = fence_here()) {
          skip_fenced(fence);
          continue;
        }
      }
      step();
    }
    return std::move(found_);
  }

 private:
  size_t run_of(char c, size_t at) const {
    const size_t end = source_.find_first_not_of(c, at);
    return std::min(end, source_.size()) - at;
  }
  size_t line_end(size_t at) const { return std::min(source_.find('\n', at), source_.size()); }

  // Length of a code fence on this line (also in lists and quotes), or 0.
  size_t fence_here() {
    const size_t first = std::min(source_.find_first_not_of(" \t>", at_), source_.size());
    if (first == source_.size() || (source_[first] != '`' && source_[first] != '~')) return 0;
    const size_t marks = run_of(source_[first], first);
    if (marks < 3) return 0;
    // a line with closing marks is inline code
    if (source_[first] == '`' &&
        source_.substr(first + marks, line_end(first) - first - marks).find('`') != source_.npos)
      return 0;
    fence_ = source_[first];
    return marks;
  }

  void skip_fenced(size_t marks) {
    at_ = line_end(at_) + 1;
    while (at_ < source_.size()) {
      const size_t first = std::min(source_.find_first_not_of(" \t>", at_), source_.size());
      const bool ends = first < source_.size() && source_[first] == fence_ && run_of(fence_, first) >= marks;
      at_ = line_end(at_) + 1;
      if (ends) return;
    }
  }

  void step() {
    const char c = source_[at_];
    if (c == '`') return skip_code_span();
    if (c == '\\' && at_ + 1 < source_.size()) {
      const char next = source_[at_ + 1];
      if (next == '(' && take(2, "\\)", false)) return;
      if (next == '[' && take(2, "\\]", true)) return;
      at_ += 2;
    } else if (c == '$') {
      const size_t marks = run_of('$', at_);
      if (marks == 2 && take(2, "$$", true)) return;
      if (marks == 1 && take_dollar()) return;
      at_ += marks;
    } else {
      ++at_;
    }
  }

  void skip_code_span() {
    const size_t marks = run_of('`', at_);
    const size_t end = std::min(paragraph_end(at_), at_ + kLongestDisplay);
    for (size_t at = at_ + marks; at < end; ++at) {
      if (source_[at] != '`') continue;
      const size_t closing = run_of('`', at);
      at += closing;
      if (closing != marks) continue;
      at_ = at;
      return;
    }
    at_ += marks;
  }

  size_t paragraph_end(size_t at) {
    if (at < paragraph_end_) return paragraph_end_;
    for (paragraph_end_ = line_end(at); paragraph_end_ < source_.size();
         paragraph_end_ = line_end(paragraph_end_ + 1)) {
      const size_t next = source_.find_first_not_of(" \t", paragraph_end_ + 1);
      if (next == source_.npos || source_[next] == '\n') break;
    }
    return paragraph_end_;
  }

  bool take(size_t marks, std::string_view closing, bool display) {
    const size_t limit = std::min(paragraph_end(at_), at_ + kLongestDisplay);
    const size_t end = source_.substr(0, limit).find(closing, at_ + marks);
    if (end == source_.npos || blank(at_ + marks, end)) return false;
    found_.push_back({at_, end + marks, marks, display});
    at_ = end + marks;
    return true;
  }

  // Pandoc: one line, no inner space at marks, no digit after.
  bool take_dollar() {
    if (at_ > 0 && is_word(source_[at_ - 1])) return false;
    if (at_ + 1 >= source_.size() || is_space(source_[at_ + 1])) return false;
    const size_t limit = std::min(line_end(at_), at_ + kLongestInline);
    for (size_t end = at_ + 1; end < limit; ++end) {
      if (source_[end] == '\\') {
        ++end;
      } else if (source_[end] == '`') {
        return false;
      } else if (source_[end] == '$') {
        const bool digit_behind = end + 1 < source_.size() && is_digit(source_[end + 1]);
        if (is_space(source_[end - 1]) || digit_behind || end == at_ + 1) return false;
        found_.push_back({at_, end + 1, 1, false});
        at_ = end + 1;
        return true;
      }
    }
    return false;
  }

  bool blank(size_t begin, size_t end) const {
    return source_.substr(begin, end - begin).find_first_not_of(" \t\n") == source_.npos;
  }

  std::string_view source_;
  size_t at_ = 0, paragraph_end_ = 0;
  char fence_ = '`';
  std::vector<FormulaPlace> found_;
};

} // namespace

std::vector<FormulaPlace> find_formulas(std::string_view markdown) { return Finder(markdown).all(); }

} // namespace ridge::text
