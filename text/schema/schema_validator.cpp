#include "text/schema/schema_validator.h"

#include "core/strings/utf8.h"
#include "text/schema/ecma_pattern.h"
#include "text/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxCheckWork = 2'000'000;
constexpr int64_t kMatchWork = 500;
constexpr int64_t kReferenceWork = 1000;
constexpr int kMaxCheckDepth = 400;

struct OutOfWork {};

// For unevaluatedProperties and unevaluatedItems.
struct Evaluated {
  std::set<std::string> names;
  std::set<size_t> items;
  void add(const Evaluated& more) {
    names.insert(more.names.begin(), more.names.end());
    items.insert(more.items.begin(), more.items.end());
  }
};

class Check {
 public:
  explicit Check(const Json& document) : document_(document) {}

  std::string complaint(const Json& value) {
    Evaluated evaluated;
    try {
      if (valid(value, document_, "", evaluated)) return {};
      return complaint_;
    } catch (const OutOfWork&) {
      return {};
    }
  }

 private:
  void work(int64_t amount) {
    work_ += amount;
    if (work_ > kMaxCheckWork) throw OutOfWork();
  }

  // First failure outside of trials.
  bool fail(const std::string& at, const std::string& message) {
    if (tries_ == 0 && complaint_.empty()) complaint_ = fmt::format("{}: {}", at.empty() ? "/" : at, message);
    return false;
  }

  bool tried(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    ++tries_;
    Evaluated more;
    const bool result = valid(value, schema, at, more);
    --tries_;
    if (result) evaluated.add(more);
    return result;
  }

  bool valid(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    work(1);
    if (schema == false) return fail(at, "no value is allowed");
    if (!schema.is_object()) return true;
    if (++depth_ > kMaxCheckDepth) throw OutOfWork();
    const bool result = general_hold(value, schema, at, evaluated) && typed_hold(value, schema, at, evaluated) &&
                        unevaluated_hold(value, schema, at, evaluated);
    --depth_;
    return result;
  }

  const Json* find(const Json& schema, const char* keyword) {
    const auto found = schema.find(keyword);
    work(static_cast<int64_t>(schema.size() / 8));
    return found == schema.end() ? nullptr : &*found;
  }
  const Json* find_list(const Json& schema, const char* keyword) {
    const Json* list = find(schema, keyword);
    return list != nullptr && list->is_array() ? list : nullptr;
  }
  const Json* find_object(const Json& schema, const char* keyword) {
    const Json* object = find(schema, keyword);
    return object != nullptr && object->is_object() ? object : nullptr;
  }
  std::optional<double> find_number(const Json& schema, const char* keyword) {
    const Json* number = find(schema, keyword);
    if (number == nullptr || !number->is_number()) return std::nullopt;
    return number->get<double>();
  }

  const Json* referenced(const std::string& reference) {
    const auto [known, is_new] = references_.try_emplace(reference, nullptr);
    if (!is_new) return known->second;
    work(kReferenceWork);
    return known->second = find_reference(document_, reference);
  }

  // 1 equals 1.0; members are unordered.
  bool equal(const Json& a, const Json& b) {
    work(1);
    if (a.is_object() && b.is_object()) {
      return a.size() == b.size() && std::ranges::all_of(a.items(), [&](const auto& entry) {
               const Json* other = find(b, entry.key().c_str());
               return other != nullptr && equal(entry.value(), *other);
             });
    }
    if (a.is_array() && b.is_array()) {
      if (a.size() != b.size()) return false;
      for (size_t i = 0; i < a.size(); ++i)
        if (!equal(a[i], b[i])) return false;
      return true;
    }
    return a == b;
  }

  bool general_hold(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    if (const Json* reference = find(schema, "$ref"); reference != nullptr && reference->is_string())
      if (const Json* target = referenced(reference->get<std::string>());
          target != nullptr && !valid(value, *target, at, evaluated))
        return false;
    if (const Json* type = find(schema, "type"); type != nullptr && !has_one_type(value, *type) &&
                                                 !(value.is_null() && schema.value("nullable", Json()) == true))
      return fail(at, fmt::format("{} is not allowed", value.is_null() ? "null" : value.type_name()));
    const auto is_value = [&](const Json& one) { return equal(one, value); };
    if (const Json* list = find_list(schema, "enum"); list != nullptr && std::ranges::none_of(*list, is_value))
      return fail(at, "the value is not in `enum`");
    if (const Json* one = find(schema, "const"); one != nullptr && !is_value(*one))
      return fail(at, "the value differs from `const`");
    return combined_hold(value, schema, at, evaluated);
  }

  bool combined_hold(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    if (const Json* parts = find_list(schema, "allOf"))
      for (const Json& part : *parts)
        if (!valid(value, part, at, evaluated)) return false;
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const Json* parts = find_list(schema, keyword);
      if (parts == nullptr) continue;
      size_t count = 0;
      for (const Json& part : *parts) count += tried(value, part, at, evaluated);
      if (count == 0) return fail(at, fmt::format("no option of `{}` matches", keyword));
      if (count > 1 && keyword == std::string_view("oneOf")) return fail(at, "several options of `oneOf` match");
    }
    Evaluated none;
    if (const Json* part = find(schema, "not"); part != nullptr && tried(value, *part, at, none))
      return fail(at, "the schema of `not` matches");
    if (const Json* condition = find(schema, "if")) {
      const Json* then = find(schema, tried(value, *condition, at, evaluated) ? "then" : "else");
      if (then != nullptr && !valid(value, *then, at, evaluated)) return false;
    }
    return true;
  }

  static bool has_type(const Json& value, const Json& type) {
    if (type == "integer")
      return value.is_number_integer() || (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
    if (value.is_null()) return type == "null";
    return type == value.type_name();
  }
  static bool has_one_type(const Json& value, const Json& type) {
    if (!type.is_array()) return has_type(value, type);
    return std::ranges::any_of(type, [&](const Json& one) { return has_type(value, one); });
  }

  bool typed_hold(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    if (value.is_object()) return object_holds(value, schema, at, evaluated);
    if (value.is_array()) return array_holds(value, schema, at, evaluated);
    if (value.is_string()) return string_holds(value.get<std::string>(), schema, at);
    return !value.is_number() || number_holds(value, schema, at);
  }

  bool count_holds(size_t count, const Json& schema, const char* least, const char* most, const std::string& at) {
    const auto size = static_cast<double>(count);
    if (const auto bound = find_number(schema, least); bound && size < *bound)
      return fail(at, fmt::format("{} are fewer than `{}` allows", count, least));
    if (const auto bound = find_number(schema, most); bound && size > *bound)
      return fail(at, fmt::format("{} are more than `{}` allows", count, most));
    return true;
  }

  bool number_holds(const Json& value, const Json& schema, const std::string& at) {
    const auto number = value.get<double>();
    const auto is_true = [&](const char* keyword) { // before draft 6
      const Json* flag = find(schema, keyword);
      return flag != nullptr && *flag == true;
    };
    if (const auto least = find_number(schema, "minimum");
        least && (number < *least || (number == *least && is_true("exclusiveMinimum"))))
      return fail(at, "the number is below `minimum`");
    if (const auto most = find_number(schema, "maximum");
        most && (number > *most || (number == *most && is_true("exclusiveMaximum"))))
      return fail(at, "the number is above `maximum`");
    if (const auto least = find_number(schema, "exclusiveMinimum"); least && number <= *least)
      return fail(at, "the number is not above `exclusiveMinimum`");
    if (const auto most = find_number(schema, "exclusiveMaximum"); most && number >= *most)
      return fail(at, "the number is not below `exclusiveMaximum`");
    if (const auto step = find_number(schema, "multipleOf"); step && *step > 0) {
      const double times = number / *step;
      if (std::isfinite(times) && std::abs(times - std::round(times)) > 1e-9 * std::max(1.0, std::abs(times)))
        return fail(at, "the number is not a multiple of `multipleOf`");
    }
    return true;
  }

  bool matches(const Json& pattern, const std::string& text) {
    if (!pattern.is_string()) return true;
    work(kMatchWork + static_cast<int64_t>(text.size() / 16));
    const auto& source = pattern.get_ref<const std::string&>();
    return patterns_.try_emplace(source, source).first->second.matches(text);
  }

  bool string_holds(const std::string& text, const Json& schema, const std::string& at) {
    work(static_cast<int64_t>(text.size() / 16));
    if (!count_holds(core::utf8_length(text), schema, "minLength", "maxLength", at)) return false;
    const Json* pattern = find(schema, "pattern"); // a list after a merge
    const auto holds = [&](const Json& one) { return matches(one, text); };
    const bool all_hold =
        pattern == nullptr || (pattern->is_array() ? std::ranges::all_of(*pattern, holds) : holds(*pattern));
    return all_hold || fail(at, "the text does not match `pattern`");
  }

  bool array_holds(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    if (!count_holds(value.size(), schema, "minItems", "maxItems", at)) return false;
    const Json* items = find(schema, "items");
    const Json* prefix = find_list(schema, "prefixItems");
    if (items != nullptr && items->is_array()) { // before 2020
      prefix = items;
      items = find(schema, "additionalItems");
    }
    const size_t listed = prefix != nullptr ? std::min(prefix->size(), value.size()) : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      const Json* part = i < listed ? &(*prefix)[i] : items;
      if (part == nullptr) break;
      evaluated.items.insert(i);
      Evaluated inner;
      if (!valid(value[i], *part, fmt::format("{}/{}", at, i), inner)) return false;
    }
    const Json* unique = find(schema, "uniqueItems");
    if (unique != nullptr && *unique == true)
      for (size_t i = 0; i < value.size(); ++i)
        for (size_t k = 0; k < i; ++k)
          if (equal(value[i], value[k])) return fail(at, "two items are the same, despite `uniqueItems`");
    return contains_holds(value, schema, at, evaluated);
  }

  bool contains_holds(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    const Json* wanted = find(schema, "contains");
    if (wanted == nullptr) return true;
    double found = 0;
    for (size_t i = 0; i < value.size(); ++i) {
      Evaluated inner;
      if (!tried(value[i], *wanted, at, inner)) continue;
      evaluated.items.insert(i);
      ++found;
    }
    if (found < find_number(schema, "minContains").value_or(1)) return fail(at, "no item matches `contains`");
    if (const auto most = find_number(schema, "maxContains"); most && found > *most)
      return fail(at, "too many items match `contains`");
    return true;
  }

  bool object_holds(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    if (!count_holds(value.size(), schema, "minProperties", "maxProperties", at)) return false;
    if (const Json* names = find_list(schema, "required"))
      for (const Json& name : *names)
        if (name.is_string() && find(value, name.get<std::string>().c_str()) == nullptr)
          return fail(at, fmt::format("`{}` is missing", name.get<std::string>()));
    for (const auto& [name, member] : value.items())
      if (!member_holds(name, member, schema, at, evaluated)) return false;
    return dependencies_hold(value, schema, at, evaluated);
  }

  bool member_holds(const std::string& name, const Json& member, const Json& schema, const std::string& at,
                    Evaluated& evaluated) {
    const std::string place = child_path(at, name);
    Evaluated inner;
    if (const Json* names = find(schema, "propertyNames"); names != nullptr && !tried(Json(name), *names, at, inner))
      return fail(place, "the name does not match `propertyNames`");
    bool declared = false;
    const auto holds = [&](const Json& part) {
      declared = true;
      evaluated.names.insert(name);
      return valid(member, part, place, inner);
    };
    if (const Json* properties = find_object(schema, "properties"))
      if (const Json* part = find(*properties, name.c_str()); part != nullptr && !holds(*part)) return false;
    if (const Json* patterns = find_object(schema, "patternProperties"))
      for (const auto& [pattern, part] : patterns->items())
        if (matches(pattern, name) && !holds(part)) return false;
    const Json* more = find(schema, "additionalProperties");
    return declared || more == nullptr || holds(*more);
  }

  bool dependencies_hold(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
      const Json* all = find_object(schema, keyword);
      if (all == nullptr) continue;
      for (const auto& [name, rule] : all->items()) {
        if (find(value, name.c_str()) == nullptr) continue;
        if (!rule.is_array()) {
          if (!valid(value, rule, at, evaluated)) return false;
          continue;
        }
        for (const Json& other : rule)
          if (other.is_string() && find(value, other.get<std::string>().c_str()) == nullptr)
            return fail(at, fmt::format("`{}` requires `{}`", name, other.get<std::string>()));
      }
    }
    return true;
  }

  bool unevaluated_hold(const Json& value, const Json& schema, const std::string& at, Evaluated& evaluated) {
    if (const Json* rest = find(schema, "unevaluatedProperties"); rest != nullptr && value.is_object())
      for (const auto& [name, member] : value.items()) {
        Evaluated inner;
        if (!evaluated.names.insert(name).second) continue;
        if (!valid(member, *rest, child_path(at, name), inner)) return false;
      }
    if (const Json* rest = find(schema, "unevaluatedItems"); rest != nullptr && value.is_array())
      for (size_t i = 0; i < value.size(); ++i) {
        Evaluated inner;
        if (!evaluated.items.insert(i).second) continue;
        if (!valid(value[i], *rest, fmt::format("{}/{}", at, i), inner)) return false;
      }
    return true;
  }

  const Json& document_;
  std::map<std::string, const Json*> references_;
  std::map<std::string, EcmaPattern> patterns_;
  std::string complaint_;
  int64_t work_ = 0;
  int depth_ = 0, tries_ = 0;
};

} // namespace

std::string SchemaValidator::complaint(const Json& value) const { return Check(schema_).complaint(value); }

} // namespace ridge::text
