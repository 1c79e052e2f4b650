// Tool calls: the result must not depend on how an answer is cut into pieces, and a complete call must not change. The
// first bytes select the syntax, the piece size, and whether the rest is a tool's schema for a grammar.
#include "core/error.h"
#include "text/calls/call_grammar.h"
#include "text/calls/call_parser.h"
#include "text/grammar/grammar.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace ridge::text;
using Json = nlohmann::ordered_json;

namespace {

std::vector<Tool> tools() {
  static const Json schema =
      Json::parse(R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {}}})");
  return {{"f", schema}, {"get_weather", schema}};
}

struct Result {
  std::string content;
  std::vector<ToolCall> calls;
  std::vector<bool> ended;
  bool operator==(const Result&) const = default;
};

Result read(const CallSyntax& syntax, std::string_view text, size_t piece_bytes) {
  CallParser parser(syntax, tools(), 1);
  Result result;
  const auto take = [&](const CallParser::Piece& piece) {
    result.content += piece.content;
    for (const CallParser::Delta& delta : piece.calls) {
      if (delta.begins) {
        result.calls.push_back({delta.id, delta.name, {}});
        result.ended.push_back(false);
      }
      if (delta.index >= result.calls.size() || result.ended[delta.index]) std::abort();
      result.calls[delta.index].arguments += delta.arguments;
      result.ended[delta.index] = delta.ends;
    }
  };
  for (size_t at = 0; at < text.size(); at += piece_bytes) take(parser.push(text.substr(at, piece_bytes)));
  take(parser.finish());
  return result;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto syntaxes = call_syntaxes();
  const CallSyntax& syntax = syntaxes[data[0] % syntaxes.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  if (data[2] == 0) {
    const Json schema = Json::parse(text, nullptr, false);
    if (!schema.is_object()) return 0;
    try {
      const std::vector<Tool> one = {{"f", schema}};
      Grammar::parse(gbnf_from_tools(syntax, one, {}, nullptr));
    } catch (const ridge::Error&) {
    }
    return 0;
  }
  if (!(read(syntax, text, 1 + data[1] % 16) == read(syntax, text, size))) std::abort();
  return 0;
}
