#include "convert/import/config/expressions.h"

#include "convert/import/config/config.h"
#include "core/error.h"

#include <charconv>
#include <cmath>
#include <numeric>

namespace ridge::convert::import {
namespace {

// "a.b" or "a.1". nullptr: absent, null, "auto", {"__float__": "Infinity"}.
const Json* find_path(const Json& document, std::string_view path) {
  const Json* at = &document;
  for_parts(path, '.', [&](std::string_view part) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (!at) return;
    if (at->is_array() && error == std::errc() && end == part.data() + part.size()) {
      at = index < at->size() ? &(*at)[index] : nullptr;
    } else {
      const auto found = at->is_object() ? at->find(part) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
    }
  });
  return at && !at->is_null() && !at->is_string() && !(at->is_object() && at->contains("__float__")) ? at : nullptr;
}

} // namespace

double count_equal(const Json& field, std::string_view words) {
  if (field.is_array())
    return std::accumulate(field.begin(), field.end(), 0.0,
                           [&](double sum, const Json& entry) { return sum + count_equal(entry, words); });
  const std::string own = field.is_string() ? field.get<std::string>() : field.dump();
  bool equal = false;
  for_parts(words, '/', [&](std::string_view word) { equal |= word == own; });
  return equal ? 1 : 0;
}

std::optional<double> Config::evaluate(std::string_view expression) const {
  if (expression.find('+') != std::string_view::npos) {
    std::optional<double> sum = 0;
    for_parts(expression, '+', [&](std::string_view term) {
      const std::optional<double> value = sum ? evaluate(term) : std::nullopt;
      sum = value ? std::optional(*sum + *value) : std::nullopt;
    });
    return sum;
  }
  std::optional<double> product = 1;
  for_parts(expression, '*', [&](std::string_view factor) {
    std::optional<double> value;
    for_parts(factor, '|', [&](std::string_view name) {
      if (value) return;
      if (const size_t equals = name.find('='); equals != std::string_view::npos) {
        const auto found = document->find(trimmed(name.substr(0, equals)));
        if (found != document->end()) value = count_equal(*found, name.substr(equals + 1));
      } else if (const size_t power = name.find('^'); power != std::string_view::npos) {
        if (const auto base = evaluate(name.substr(0, power)))
          value = std::pow(*base, evaluate(name.substr(power + 1)).value_or(1));
      } else if (double number; std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc()) {
        value = number;
      } else if (const Json* found = find_path(*document, name)) {
        if (found->is_array()) value = static_cast<double>(found->size());
        if (found->is_boolean()) value = found->get<bool>() ? 1 : 0;
        if (found->is_number()) value = found->get<double>();
        if (!value || !std::isfinite(*value)) throw_error("{}: {}: expected a number", path, name);
      }
    });
    product = product && value ? std::optional(*product * *value) : std::nullopt;
  });
  return product;
}

} // namespace ridge::convert::import
