#include "text/jinja/tainted_text.h"

#include <algorithm>

namespace ridge::text::jinja {

void TaintedText::append(std::string_view bytes, bool is_data) {
  const size_t begin = bytes_.size();
  bytes_ += bytes;
  if (!is_data || bytes.empty()) return;
  if (!data_.empty() && data_.back().end == begin)
    data_.back().end = bytes_.size();
  else
    data_.push_back({begin, bytes_.size()});
}

void TaintedText::append(const TaintedText& from, size_t begin, size_t bytes) {
  const size_t end = begin + bytes, start = bytes_.size();
  bytes_.append(from.bytes_, begin, bytes);
  auto span = std::partition_point(from.data_.begin(), from.data_.end(),
                                   [begin](const ByteSpan& span) { return span.end <= begin; });
  for (; span != from.data_.end() && span->begin < end; ++span) {
    const ByteSpan moved{start + std::max(span->begin, begin) - begin, start + std::min(span->end, end) - begin};
    if (!data_.empty() && data_.back().end == moved.begin)
      data_.back().end = moved.end;
    else
      data_.push_back(moved);
  }
}

TaintedText TaintedText::part(std::string_view view) const {
  TaintedText out;
  if (!view.empty()) out.append(*this, static_cast<size_t>(view.data() - bytes_.data()), view.size());
  return out;
}

void TaintedText::mark_all() {
  data_.clear();
  if (!bytes_.empty()) data_.push_back({0, bytes_.size()});
}

} // namespace ridge::text::jinja
