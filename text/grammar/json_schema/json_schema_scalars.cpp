// Enums, constants, strings, numbers.
#include "text/grammar/json_schema/json_schema_merge.h"
#include "text/grammar/json_schema/json_schema_primitives.h"
#include "text/grammar/json_schema/json_schema_rules.h"
#include "text/grammar/json_schema/json_schema_text.h"
#include "text/json/kept_number.h"
#include "text/schema/schema_validator.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridge::text {

namespace {

constexpr uint32_t kMaxLengthBesidePattern = 1000; // otherwise the automaton is too large
constexpr double kMaxExactBound = 1e18;            // larger bounds are inexact

struct StringConditions {
  std::vector<StringPattern> patterns;
  uint32_t min = 0;
  std::optional<uint32_t> max;

  bool has_length() const { return min > 0 || max; }
  StringSet set() const {
    std::optional<StringSet> all;
    const auto add = [&](StringSet one) { all = all ? all->both(one) : std::move(one); };
    for (const StringPattern& pattern : patterns) add(StringSet(pattern));
    if (has_length()) add(StringSet::of_length(min, max));
    return std::move(*all);
  }
};

StringConditions string_conditions(const Json& schema, const std::string& path) {
  StringConditions conditions;
  conditions.min = find_count(schema, "minLength", path).value_or(0);
  conditions.max = find_count(schema, "maxLength", path);
  if (conditions.max && conditions.min > *conditions.max)
    fail_unsatisfiable(path, fmt::format("at least {} and at most {} characters", conditions.min, *conditions.max));
  const auto add = [&](const std::string& pattern) {
    try {
      conditions.patterns.push_back(parse_string_pattern(pattern));
    } catch (const core::Error&) {
    }
  };
  if (const Json* pattern = find_keyword(schema, "pattern"))
    for (const Json& one : pattern->is_array() ? *pattern : Json::array({*pattern}))
      if (one.is_string()) add(one.get<std::string>());
  const auto format = find_string(schema, "format", path);
  if (const auto known = formats().find(format.value_or("")); known != formats().end()) {
    add(known->second.pattern);
    if (conditions.min <= known->second.min_length) conditions.min = 0;
    if (conditions.max.value_or(0) >= known->second.max_length) conditions.max.reset();
  }
  return conditions;
}

// Rounds inwards. nullopt: no bound, or beyond 64 bits.
std::optional<int64_t> find_whole_bound(const Json& schema, const char* keyword, double (*round)(double)) {
  const Json* bound = find_keyword(schema, keyword);
  if (bound == nullptr || !bound->is_number()) return std::nullopt;
  const double value = bound->get<double>();
  if (!(std::abs(value) < 9e18)) return std::nullopt;
  return bound->is_number_float() ? static_cast<int64_t>(round(value)) : bound->get<int64_t>();
}

struct DecimalBound {
  Decimal value;
  bool excluded = false;
};

// Rounds to 12 digits after the point.
Decimal decimal_of(const Json& number, bool upwards, bool& rounded) {
  constexpr size_t kPlaces = 12;
  constexpr uint64_t kOne = 1'000'000'000'000;
  const bool negative = number.get<double>() < 0;
  std::string text = number.is_number_float() ? fmt::format("{}", std::abs(number.get<double>())) : number.dump();
  if (text.find('e') != std::string::npos) text = fmt::format("{:.30f}", std::abs(number.get<double>()));
  if (text.starts_with('-')) text.erase(0, 1);
  const size_t point = std::min(text.find('.'), text.size());
  uint64_t whole = std::stoull(text.substr(0, point));
  std::string digits = point < text.size() ? text.substr(point + 1) : "";
  rounded = digits.size() > kPlaces && digits.find_first_not_of('0', kPlaces) != std::string::npos;
  digits.resize(kPlaces, '0');
  uint64_t fraction = std::stoull(digits);
  if (rounded && upwards != negative && ++fraction == kOne) {
    fraction = 0;
    ++whole;
  }
  digits = fmt::format("{:012}", fraction);
  digits.erase(digits.find_last_not_of('0') + 1);
  return {negative && (whole > 0 || fraction > 0), whole, digits};
}

// The narrower of the inclusive and the exclusive bound; nullopt: none.
std::optional<DecimalBound> find_bound(const Json& schema, bool lower) {
  const char *including = lower ? "minimum" : "maximum", *excluding = lower ? "exclusiveMinimum" : "exclusiveMaximum";
  const Json *inner = find_keyword(schema, including), *outer = find_keyword(schema, excluding);
  const bool flag = outer != nullptr && *outer == true; // before draft 6
  if (inner != nullptr && !inner->is_number()) inner = nullptr;
  if (outer != nullptr && !outer->is_number()) outer = nullptr;
  const bool takes_outer = outer != nullptr && (inner == nullptr || (lower ? *outer >= *inner : *outer <= *inner));
  const Json* number = takes_outer ? outer : inner;
  if (number == nullptr || !(std::abs(number->get<double>()) < kMaxExactBound)) return std::nullopt;
  DecimalBound bound;
  bool rounded = false;
  bound.value = decimal_of(*number, lower, rounded);
  bound.excluded = !rounded && (takes_outer || flag);
  return bound;
}

bool has_bounds(const Json& schema) {
  for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
    if (const Json* bound = find_keyword(schema, keyword); bound != nullptr && bound->is_number()) return true;
  return false;
}

struct Steps10 {
  int64_t whole = 1;
  std::optional<size_t> places;
};

// nullopt: neither an integer nor a power of ten.
std::optional<Steps10> find_step(const Json& schema) {
  const Json* given = find_keyword(schema, "multipleOf");
  if (given == nullptr || !given->is_number()) return std::nullopt;
  const double step = given->get<double>();
  if (step >= 1 && step == std::floor(step) && step < 1e15) return Steps10{static_cast<int64_t>(step), {}};
  for (size_t places = 1; places < 10; ++places)
    if (step == std::pow(10.0, -static_cast<double>(places))) return Steps10{1, places};
  return std::nullopt;
}

std::string integer_rule(GrammarRules& rules, const Json& schema, const std::string& path, int64_t step,
                         const std::string& hint) {
  const auto is_true = [&](const char* keyword) {
    return schema.value(keyword, Json(false)) == true;
  }; // before draft 6
  auto min = find_whole_bound(schema, "minimum", std::ceil), max = find_whole_bound(schema, "maximum", std::floor);
  const auto is_whole = [&](const char* keyword) {
    const Json* bound = find_keyword(schema, keyword);
    return bound != nullptr && bound->is_number() && bound->get<double>() == std::floor(bound->get<double>());
  };
  if (min && is_true("exclusiveMinimum") && is_whole("minimum")) ++*min;
  if (max && is_true("exclusiveMaximum") && is_whole("maximum")) --*max;
  // For integers, x > 2.5 equals x ≥ 3: exclusive bounds round outwards.
  if (const auto above = find_whole_bound(schema, "exclusiveMinimum", std::floor); above && (!min || *above >= *min))
    min = *above + 1;
  if (const auto below = find_whole_bound(schema, "exclusiveMaximum", std::ceil); below && (!max || *below <= *max))
    max = *below - 1;
  if (min && max && *min > *max) fail_unsatisfiable(path, "the bounds exclude every number");
  if (step > 1) {
    try {
      const std::string some = gbnf_multiples(rules, min, max, step, hint);
      if (some.empty()) fail_unsatisfiable(path, "the bounds exclude every multiple");
      return rules.add(hint, some);
    } catch (const Unsatisfiable&) {
      throw;
    } catch (const core::Error&) {
    }
  }
  return min || max || has_bounds(schema) ? rules.add(hint, gbnf_integer_range(min, max)) : rules.primitive("integer");
}

} // namespace

std::vector<Json> listed_values(const Json& schema, const std::string& path) {
  Json rest = schema;
  rest.erase("enum");
  const SchemaValidator others(std::move(rest));
  std::vector<Json> values;
  if (const Json* list = find_array(schema, "enum", path)) {
    for (const Json& value : *list)
      if (others.complaint(value).empty()) values.push_back(value);
  } else if (const auto constant = schema.find("const"); others.complaint(*constant).empty()) {
    values.push_back(*constant);
  }
  return values;
}

std::string enum_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const Json& value : listed_values(schema, path)) {
    std::string literal = gbnf_literal(json_text(value));
    if (seen.insert(literal).second) values.push_back(std::move(literal));
  }
  if (values.empty()) fail_unsatisfiable(path, "no value satisfies both `enum` and `const`");
  return rules.add(hint, fmt::format("{}", fmt::join(values, " | ")));
}

std::string string_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint) {
  const std::string text = string_text(rules, schema, path, hint + "-text", {.any = rules.primitive("char")});
  return text.empty() ? rules.primitive("string") : rules.add(hint, fmt::format("\"\\\"\" {} \"\\\"\"", text));
}

std::string string_text(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint,
                        const StringNotation& notation) {
  StringConditions conditions = string_conditions(schema, path);
  const uint32_t most_count = rules.detail().max_count;
  if (conditions.max.value_or(0) > most_count) conditions.max.reset();
  conditions.min = std::min(conditions.min, most_count);
  if (conditions.patterns.empty()) {
    if (!conditions.has_length()) return "";
    return fmt::format("{}{{{},{}}}", notation.any, conditions.min,
                       conditions.max ? std::to_string(*conditions.max) : "");
  }
  if (conditions.max.value_or(0) > kMaxLengthBesidePattern) conditions.max.reset();
  const auto of_one = [&] { return gbnf_from_pattern(rules, conditions.patterns[0], notation, hint); };
  const auto of_all = [&](const StringConditions& all) {
    const StringSet set = all.set();
    if (set.empty()) fail_unsatisfiable(path, "no string satisfies it");
    return gbnf_from_set(rules, set, notation, hint);
  };
  std::vector<std::function<std::string()>> ways; // strictest first; the first success wins
  if (conditions.patterns.size() > 1 || conditions.has_length()) ways.push_back([&] { return of_all(conditions); });
  if (conditions.patterns.size() > 1) ways.push_back([&] { return of_all({conditions.patterns}); });
  ways.push_back(of_one);
  for (const auto& way : ways) {
    const size_t count = rules.size();
    try {
      return way();
    } catch (const Unsatisfiable&) {
      throw;
    } catch (const core::Error&) {
      rules.drop(count);
    }
  }
  return "";
}

std::optional<StringSet> string_set(const Json& schema, const std::string& path) {
  const StringConditions conditions = string_conditions(schema, path);
  if (conditions.patterns.empty() && !conditions.has_length()) return std::nullopt;
  return conditions.set();
}

std::string number_rule(GrammarRules& rules, bool is_integer, const Json& schema, const std::string& path,
                        const std::string& hint) {
  const auto step = find_step(schema);
  if (is_integer || (step && !step->places)) return integer_rule(rules, schema, path, step ? step->whole : 1, hint);
  if (!has_bounds(schema) && !step) return rules.primitive("number");
  NumberBounds bounds;
  if (step) bounds.places = *step->places;
  if (const auto min = find_bound(schema, true)) {
    bounds.min = min->value;
    bounds.min_excluded = min->excluded;
  }
  if (const auto max = find_bound(schema, false)) {
    bounds.max = max->value;
    bounds.max_excluded = max->excluded;
  }
  const std::string range = gbnf_number_range(bounds);
  if (range.empty()) fail_unsatisfiable(path, "the bounds exclude every number");
  return rules.add(hint, range);
}

} // namespace ridge::text
