#include "core/strings/utf8.h"
#include "text/tokenizer/tokenizer.h"

namespace ridge::text {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(tokenizer), render_special_(options.render_special), continues_(options.continues),
      strip_space_(tokenizer.add_space_prefix() && !options.continues) {}

std::string StreamDecoder::push(int32_t id) {
  tokenizer_.append_piece(id, render_special_, strip_space_, undecoded_);
  if (continues_) strip_space_ = false; // the leading space of a generated token is real
  return take(false);
}

std::string StreamDecoder::finish() { return take(true); }

std::string StreamDecoder::take(bool at_end) {
  std::string text;
  std::string_view rest = undecoded_;
  while (!rest.empty()) {
    const core::Utf8Head head = core::utf8_head(rest);
    if (head.status == core::Utf8Status::incomplete && !at_end) break;
    text += head.status == core::Utf8Status::valid ? rest.substr(0, head.bytes) : core::kReplacementCharacter;
    rest.remove_prefix(head.bytes);
  }
  undecoded_.erase(0, undecoded_.size() - rest.size());
  return text;
}

} // namespace ridge::text
