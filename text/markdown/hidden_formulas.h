// Hides formulas from md4c, which would interpret their marks.
#pragma once

#include "text/markdown/formulas.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class HiddenFormulas {
 public:
  // `source` must outlive it. Control characters become spaces.
  explicit HiddenFormulas(std::string_view source);
  HiddenFormulas(const HiddenFormulas&) = delete;
  HiddenFormulas& operator=(const HiddenFormulas&) = delete;

  // For the parser; same offsets as the source.
  std::string_view copy() const { return copy_; }
  bool is_in_copy(const char* text) const { return text >= copy_.data() && text <= copy_.data() + copy_.size(); }
  size_t place_of(std::string_view part) const { return static_cast<size_t>(part.data() - copy_.data()); }
  std::string original(std::string_view part) const { return std::string(source_.substr(place_of(part), part.size())); }

  // Splits a part of the copy into text (in the copy) and formulas.
  void split(std::string_view part, const std::function<void(std::string_view)>& take_text,
             const std::function<void(const FormulaPlace&)>& take_formula) const;

 private:
  const std::string_view source_;
  std::string copy_;
  const std::vector<FormulaPlace> formulas_;
};

struct ShownFormula {
  std::string text;
  bool unicode;
};
ShownFormula shown_formula(std::string_view latex);

} // namespace ridge::text
