// Hostile grammars and JSON schemas: either an Error or an automaton that a few tokens can be matched against, in
// bounded time and memory. The input's first byte chooses: a grammar, or a schema whose grammar must parse. What
// follows the first zero byte of the rest picks tokens.
#include "core/error.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/json_schema.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

using namespace ridge::text;

namespace {

const TokenTable& vocabulary() {
  static const TokenTable table = [] {
    std::vector<std::string> pieces = {""};
    for (int byte = 0; byte < 256; ++byte) pieces.push_back(std::string(1, static_cast<char>(byte)));
    for (const char* piece : {"ab", "aaaaaaaa", "é", "日本", "\xe6\x97", "{\"", "\":", "true", "  ", "0.1"}) {
      pieces.push_back(piece);
    }
    return TokenTable(pieces, std::vector<int32_t>{0});
  }();
  return table;
}

void match(const Grammar& grammar, std::string_view choices) {
  GrammarMatcher matcher(grammar, vocabulary());
  std::vector<float> logits(static_cast<size_t>(vocabulary().size()));
  for (const char choice : choices.substr(0, 16)) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    matcher.apply(logits);
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < vocabulary().size(); ++token) {
      const bool is_allowed = logits[static_cast<size_t>(token)] == 0.0f;
      if (is_allowed != matcher.allows(token)) std::abort(); // the mask and the single check disagree
      if (is_allowed) allowed.push_back(token);
    }
    if (allowed.empty()) return;
    matcher.accept(allowed[static_cast<uint8_t>(choice) % allowed.size()]);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t zero = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(0, zero);
  const std::string_view choices = input.substr(std::min(zero + 1, input.size()));
  std::string gbnf(text);
  if (data[0] % 2 == 1) {
    const auto schema = nlohmann::ordered_json::parse(text, nullptr, false);
    if (schema.is_discarded()) return 0;
    try {
      gbnf = gbnf_from_json_schema(schema);
    } catch (const ridge::Error&) {
      return 0;
    }
    try {
      Grammar::parse(gbnf);
    } catch (const ridge::Error& error) {
      // The converter's own grammars may be too large, never wrong.
      if (std::string_view(error.what()).find("too large") == std::string_view::npos &&
          std::string_view(error.what()).find("too many") == std::string_view::npos &&
          std::string_view(error.what()).find("nested deeper") == std::string_view::npos &&
          std::string_view(error.what()).find("symbols") == std::string_view::npos) {
        std::abort();
      }
      return 0;
    }
  }
  try {
    match(Grammar::parse(gbnf), choices);
  } catch (const ridge::Error&) {
  }
  return 0;
}
