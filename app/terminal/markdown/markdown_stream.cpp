#include "app/terminal/markdown/markdown_stream.h"

#include "app/terminal/markdown/markdown.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {
namespace {

constexpr size_t kLongestBlock = 1 << 16; // bytes; longer blocks are not parsed again for each token

int rows_of(const std::string& line, int columns) { return std::max(1, (shown_width(line) + columns - 1) / columns); }

} // namespace

std::string MarkdownStream::add(std::string_view text, int columns, int rows) {
  if (columns == 0 || source_.size() + text.size() > kLongestBlock) {
    if (!plain_ && !at_line_start()) wrap_.add("\n", columns);
    plain_ = true;
  }
  if (plain_) return wrap_.add(text, columns);
  source_ += text;
  std::string out;
  if (const size_t end = unfinished_block(source_); end > 0) {
    out = show(lines(std::string_view(source_).substr(0, end), columns), columns, rows) + "\n";
    source_.erase(0, end);
    shown_ = {""};
    follows_ = true;
  }
  return out + show(lines(source_, columns), columns, rows);
}

std::string MarkdownStream::flush(int columns) { return plain_ ? wrap_.flush(columns) : ""; }

std::vector<std::string> MarkdownStream::lines(std::string_view source, int columns) const {
  std::vector<std::string> lines = markdown_lines(source, columns);
  if (follows_) lines.insert(lines.begin(), "");
  return lines;
}

// Keeps unchanged lines and rewrites the others in place.
std::string MarkdownStream::show(std::vector<std::string> lines, int columns, int rows) {
  size_t same = 0;
  while (same < lines.size() && same < shown_.size() && lines[same] == shown_[same]) ++same;
  std::string out;
  if (same == lines.size() && same == shown_.size()) return out;
  const bool grows = same + 1 == shown_.size() && same < lines.size() && lines[same].starts_with(shown_[same]);
  if (grows) {
    out = lines[same].substr(shown_[same].size());
    ++same;
  } else if (same < shown_.size()) {
    if (same > 0 && same == lines.size()) --same; // leaves the cursor after the last line
    int up = -1;
    size_t first = shown_.size(); // first line still on the screen
    while (first > same && up + rows_of(shown_[first - 1], columns) < std::max(rows, 1))
      up += rows_of(shown_[--first], columns);
    if (first < shown_.size()) {
      out = (up > 0 ? fmt::format("\033[{}A", up) : "") + "\r\033[J";
      same = std::min(first, lines.size());
      if (same < lines.size()) out += lines[same];
      same = std::min(same + 1, lines.size());
    }
  } else if (!lines.empty() && shown_.empty()) {
    out = lines[0];
    same = 1;
  }
  for (; same < lines.size(); ++same) out += "\n" + lines[same];
  shown_ = std::move(lines);
  return out;
}

} // namespace ridge::app
