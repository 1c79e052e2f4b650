// Grammars or JSON schemas (first byte) give an Error or an automaton of bounded time and memory. Every valid schema
// must have a grammar, for answers and for tools, and a value check. The text after the first zero byte selects tokens
// and is the value.
#include "core/error.h"
#include "text/calls/call_grammar.h"
#include "text/calls/call_values.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/json_schema/json_schema.h"
#include "text/schema/schema.h"
#include "text/schema/schema_validator.h"

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
      if (is_allowed != matcher.allows(token)) std::abort();
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
    nlohmann::ordered_json cleaned;
    try {
      cleaned = clean_schema(schema);
    } catch (const ridge::Error&) {
      return 0;
    }
    gbnf = gbnf_from_json_schema(schema); // must not throw
    const auto value = parse_json(choices);
    const SchemaValidator validator(cleaned);
    validator.complaint(value.is_discarded() ? nlohmann::ordered_json::object() : value);
    const CallSyntax& syntax = call_syntaxes()[data[0] / 2 % call_syntaxes().size()];
    if (cleaned.is_object()) grammar_from_tools(syntax, std::vector<Tool>{{"f", cleaned}}, {}, nullptr);
  }
  try {
    match(Grammar::parse(gbnf), choices);
  } catch (const ridge::Error&) {
  }
  return 0;
}
