// What the parts of a program's text are, as far as colours need it: no parser, rules that most languages share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ridge::text {

enum class CodeKind : uint8_t { plain, keyword, string, number, comment };

struct CodePart {
  size_t begin, end; // bytes
  CodeKind kind;
};

// The parts that are not plain, in order. `language`: as it stands behind a fence: "cpp", "python"; others, and none,
// have no keywords, and no parts at all where it is "text" or "markdown". A language's name is one of few that are
// known, so colours of an unknown one are those of strings and numbers.
std::vector<CodePart> code_parts(std::string_view code, std::string_view language);

} // namespace ridge::text
