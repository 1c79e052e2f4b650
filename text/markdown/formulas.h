// Formulas in LaTeX within texts that models write: where they are, and as Unicode where it can say them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// $…$, $$…$$, \(…\) or \[…\].
struct FormulaPlace {
  size_t begin, end; // bytes, with its marks
  size_t marks;      // bytes of a mark
  bool display;      // on a line of its own

  std::string_view latex(std::string_view source) const {
    return source.substr(begin + marks, end - begin - 2 * marks);
  }
};

// Those outside of code, in order. What may be prices ("$5 and $10") is no formula, nor is what an empty line divides.
std::vector<FormulaPlace> find_formulas(std::string_view markdown);

// "x² + α/2" for "x^2 + \frac{\alpha}{2}"; has line breaks where the formula has lines. Nothing where the formula has
// commands or forms that Unicode has no characters for.
std::optional<std::string> formula_as_unicode(std::string_view latex);

} // namespace ridge::text
