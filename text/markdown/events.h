// md4c's events, shared by window and terminal.
#pragma once

#include <md4c.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace ridge::text {

// Handler: enter(type, detail), leave(type, detail) for blocks; enter(type, detail), leave(type) for spans; take(type,
// text). Drops md4c 0.4.8's unmatched span ends.
template <typename Handler>
class MarkdownEvents {
 public:
  explicit MarkdownEvents(Handler& handler) : handler_(handler) {}

  void parse(std::string_view source) {
    MD_PARSER parser = {};
    parser.flags = MD_DIALECT_GITHUB | MD_FLAG_NOHTML;
    parser.enter_block = [](MD_BLOCKTYPE type, void* detail, void* self) {
      of(self).spans_.clear();
      of(self).handler_.enter(type, detail);
      return 0;
    };
    parser.leave_block = [](MD_BLOCKTYPE type, void* detail, void* self) {
      of(self).spans_.clear();
      of(self).handler_.leave(type, detail);
      return 0;
    };
    parser.enter_span = [](MD_SPANTYPE type, void* detail, void* self) {
      of(self).spans_.push_back(type);
      of(self).handler_.enter(type, detail);
      return 0;
    };
    parser.leave_span = [](MD_SPANTYPE type, void*, void* self) {
      of(self).leave(type);
      return 0;
    };
    parser.text = [](MD_TEXTTYPE type, const char* text, MD_SIZE size, void* self) {
      of(self).handler_.take(type, {text, size});
      return 0;
    };
    md_parse(source.data(), static_cast<MD_SIZE>(source.size()), &parser, this);
  }

 private:
  static MarkdownEvents& of(void* self) { return *static_cast<MarkdownEvents*>(self); }

  void leave(MD_SPANTYPE type) {
    const auto entered = std::find(spans_.rbegin(), spans_.rend(), type);
    if (entered == spans_.rend()) return;
    spans_.erase(std::next(entered).base());
    handler_.leave(type);
  }

  Handler& handler_;
  std::vector<MD_SPANTYPE> spans_;
};

} // namespace ridge::text
