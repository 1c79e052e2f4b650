#include "text/tokenizer/pretokenize.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "core/strings/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ridge::text {
namespace {

// Replaces \s and \S by Unicode's White_Space: PCRE2's \s includes U+180E, which Unicode has excluded since 6.3.
std::string spell_out_white_space(std::string_view pattern) {
  constexpr std::string_view kWhiteSpace = "\\t-\\r\\x{85}\\p{Z}";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\') {
      in_class = pattern[i] == '[' || (in_class && pattern[i] != ']');
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's')
      out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
    else if (escaped == 'S')
      out += fmt::format("[^{}]", kWhiteSpace);
    else
      (out += '\\') += escaped;
  }
  return out;
}

// Backtracking over a long run of characters uses the matcher's stack.
constexpr size_t kFirstStackBytes = 64 << 10, kMaxStackBytes = 64 << 20; // reserved, touched only when used

std::string message_of(int code) {
  unsigned char text[128];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

} // namespace

struct Pretokenizer::Matcher {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kFirstStackBytes, kMaxStackBytes, nullptr);
  std::vector<uint32_t> pieces, next;

  Matcher() {
    if (!context || !data || !stack) throw std::bad_alloc();
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, UINT32_MAX);
    pcre2_set_depth_limit(context, UINT32_MAX);
  }
  ~Matcher() {
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
};

class Pretokenizer::Pattern {
 public:
  explicit Pattern(std::string_view source) {
    const std::string pattern = spell_out_white_space(source);
    int error = 0;
    size_t offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                          &offset, nullptr);
    if (!code_) throw_error("pattern {}: offset {}: {}", core::printable(pattern), offset, message_of(error));
    jit_ = pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE) == 0; // not available on some processors: PCRE2 then interprets
  }
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // Appends base + ends of matches and gaps.
  void split(std::string_view text, uint32_t base, const Matcher& matcher, std::vector<uint32_t>& ends) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const size_t* const found = pcre2_get_ovector_pointer(matcher.data);
    size_t done = 0;
    for (size_t from = 0; from < text.size();) {
      int matches = PCRE2_ERROR_JIT_STACKLIMIT;
      if (jit_)
        matches = pcre2_jit_match(code_, subject, text.size(), from, PCRE2_NO_UTF_CHECK, matcher.data, matcher.context);
      if (matches == PCRE2_ERROR_JIT_STACKLIMIT)
        matches = pcre2_match(code_, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher.data,
                              matcher.context);
      if (matches == PCRE2_ERROR_NOMATCH) break;
      if (matches < 0) throw_error("splitting the text into words: byte {}: {}", base + from, message_of(matches));
      const size_t start = found[0], end = found[1];
      if (end == start) {
        if (start == text.size()) break;
        from = start + core::utf8_step(text.substr(start));
        continue;
      }
      if (start > done) ends.push_back(base + static_cast<uint32_t>(start));
      ends.push_back(base + static_cast<uint32_t>(end));
      done = from = end;
    }
    if (done < text.size()) ends.push_back(base + static_cast<uint32_t>(text.size()));
  }

 private:
  pcre2_code* code_ = nullptr;
  bool jit_ = false;
};

Pretokenizer::Pretokenizer(const PretokenizerFamily& family) {
  for (const char* pattern : family.patterns)
    if (pattern) patterns_.push_back(std::make_unique<Pattern>(pattern));
}

Pretokenizer::Pretokenizer(std::span<const std::string> patterns, uint32_t match_limit) : match_limit_(match_limit) {
  for (const std::string& pattern : patterns) patterns_.push_back(std::make_unique<Pattern>(pattern));
}

Pretokenizer::~Pretokenizer() = default;

void Pretokenizer::split(std::string_view text, std::vector<uint32_t>& ends) const {
  const auto matcher = matchers_.borrow(text.size());
  pcre2_set_match_limit(matcher->context, match_limit_);
  uint32_t base = 0;
  while (base < text.size()) {
    const size_t valid = core::utf8_valid_prefix(text.substr(base));
    if (valid > 0) split_valid(text.substr(base, valid), base, *matcher, ends);
    base += static_cast<uint32_t>(valid);
    const uint32_t stray = base;
    while (base < text.size() && core::utf8_head(text.substr(base)).status != core::Utf8Status::valid) ++base;
    if (base > stray) ends.push_back(base);
  }
}

void Pretokenizer::split_valid(std::string_view text, uint32_t base, Matcher& matcher,
                               std::vector<uint32_t>& ends) const {
  if (patterns_.size() == 1) return patterns_.front()->split(text, base, matcher, ends);
  matcher.pieces.assign(1, static_cast<uint32_t>(text.size()));
  for (const auto& pattern : patterns_) {
    matcher.next.clear();
    uint32_t start = 0;
    for (const uint32_t end : matcher.pieces) {
      pattern->split(text.substr(start, end - start), start, matcher, matcher.next);
      start = end;
    }
    matcher.pieces.swap(matcher.next);
  }
  for (const uint32_t end : matcher.pieces) ends.push_back(base + end);
}

} // namespace ridge::text
