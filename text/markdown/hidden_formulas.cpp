#include "text/markdown/hidden_formulas.h"

#include <algorithm>
#include <optional>

namespace ridge::text {
namespace {

constexpr char kHidden = '\x02'; // replaces each byte of a formula, which keeps offsets

} // namespace

HiddenFormulas::HiddenFormulas(std::string_view source)
    : source_(source), copy_(source), formulas_(find_formulas(source)) {
  for (char& c : copy_)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = ' ';
  for (const FormulaPlace& formula : formulas_)
    std::fill(copy_.begin() + static_cast<ptrdiff_t>(formula.begin),
              copy_.begin() + static_cast<ptrdiff_t>(formula.end), kHidden);
}

void HiddenFormulas::split(std::string_view part, const std::function<void(std::string_view)>& take_text,
                           const std::function<void(const FormulaPlace&)>& take_formula) const {
  while (!part.empty()) {
    const size_t hidden = part.find(kHidden);
    if (hidden != 0) {
      const std::string_view before = part.substr(0, hidden);
      take_text(before);
      part.remove_prefix(before.size());
      continue;
    }
    const size_t place = place_of(part);
    const auto formula = std::ranges::upper_bound(formulas_, place, {}, &FormulaPlace::end);
    if (formula == formulas_.end() || formula->begin > place) return; // unreachable
    if (formula->begin == place) take_formula(*formula);
    part.remove_prefix(std::min(formula->end - place, part.size()));
  }
}

ShownFormula shown_formula(std::string_view latex) {
  std::optional<std::string> unicode = formula_as_unicode(latex);
  ShownFormula shown{unicode ? *unicode : std::string(latex), unicode.has_value()};
  const size_t first = std::min(shown.text.find_first_not_of(" \n\t"), shown.text.size());
  shown.text = shown.text.substr(first, shown.text.find_last_not_of(" \n\t") + 1 - first);
  return shown;
}

} // namespace ridge::text
