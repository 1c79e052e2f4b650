#include "text/schema/ecma_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ridge::text {
namespace {

constexpr uint32_t kMaxMatchSteps = 100'000, kMaxMatchKilobytes = 4096; // per search
constexpr size_t kMaxPatternBytes = 20'000;

template <typename T, auto free>
struct Freed {
  T* value;
  ~Freed() { free(value); }
};

} // namespace

EcmaPattern::EcmaPattern(const std::string& pattern) {
  if (pattern.size() > kMaxPatternBytes) return;
  // ECMAScript's rules: \u0041, empty [], $ only at the very end, an unset group matches nothing.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_DOLLAR_ENDONLY |
                                PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C;
  int error = 0;
  size_t at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), kOptions, &error, &at, nullptr);
  if (code != nullptr)
    code_ = std::shared_ptr<void>(code, [](void* c) { pcre2_code_free(static_cast<pcre2_code*>(c)); });
}

bool EcmaPattern::matches(std::string_view text) const {
  if (!code_) return true;
  const Freed<pcre2_match_context, pcre2_match_context_free> context{pcre2_match_context_create(nullptr)};
  const Freed<pcre2_match_data, pcre2_match_data_free> data{pcre2_match_data_create(1, nullptr)};
  if (context.value == nullptr || data.value == nullptr) return true;
  pcre2_set_match_limit(context.value, kMaxMatchSteps);
  pcre2_set_heap_limit(context.value, kMaxMatchKilobytes);
  const int found = pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), 0, 0, data.value, context.value);
  return found != PCRE2_ERROR_NOMATCH;
}

} // namespace ridge::text
