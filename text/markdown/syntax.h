// Syntax highlighting by rules that most languages share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ridge::text {

enum class CodeKind : uint8_t { plain, keyword, string, number, comment };

struct CodePart {
  size_t begin, end;
  CodeKind kind;
};

// Ordered, without plain text. `language`: a fence's label. Unknown ones have no keywords; "text" and "markdown" have
// no parts.
std::vector<CodePart> code_parts(std::string_view code, std::string_view language);

} // namespace ridge::text
