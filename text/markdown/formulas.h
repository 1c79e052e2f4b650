// Finds LaTeX formulas in text and converts them to Unicode.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// $…$, $$…$$, \(…\) or \[…\].
struct FormulaPlace {
  size_t begin, end; // bytes, including marks
  size_t marks;      // length of a mark
  bool display;

  std::string_view latex(std::string_view source) const {
    return source.substr(begin + marks, end - begin - 2 * marks);
  }
};

// Outside of code, in order. Prices ("$5 and $10") and text across an empty line are no formulas.
std::vector<FormulaPlace> find_formulas(std::string_view markdown);

// "x² + α/2" for "x^2 + \frac{\alpha}{2}"; may have line breaks. nullopt: Unicode cannot express it.
std::optional<std::string> formula_as_unicode(std::string_view latex);

} // namespace ridge::text
