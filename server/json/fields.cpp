#include "server/json/fields.h"

#include "core/error.h"
#include "core/json/parse.h"
#include "server/json/api_error.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ridge::server {
namespace {

Json parse(const std::string& body) {
  try {
    return core::parse_json(body, {.exact_numbers = true});
  } catch (const Error& error) {
    throw_invalid("", "the body {}", error.what());
  }
}

} // namespace

Json parse_body(const std::string& body) {
  Json json = parse(body);
  if (!json.is_object()) throw_invalid("", "the body is not a JSON object");
  return json;
}

Json parse_list(const std::string& body) {
  Json json = parse(body);
  if (!json.is_array()) throw_invalid("", "the body is not a JSON list");
  return json;
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) throw_invalid(path_, "{}: expected an object", path_);
}

std::string Fields::path_of(const char* name) const { return path_.empty() ? name : path_ + "." + name; }

const Json* Fields::find(const char* name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

const Json& Fields::required(const char* name) const {
  const Json* value = find(name);
  if (!value) throw_invalid(path_of(name), "{} is missing", path_of(name));
  return *value;
}

std::optional<bool> Fields::flag(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw_invalid(path_of(name), "{}: expected true or false", path_of(name));
  return value->get<bool>();
}

std::optional<double> Fields::number(const char* name, double lowest, double highest) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= lowest && value->get<double>() <= highest))
    throw_invalid(path_of(name), "{}: expected a number from {} to {}", path_of(name), lowest, highest);
  return value->get<double>();
}

std::optional<int64_t> Fields::integer(const char* name, int64_t lowest, int64_t highest) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const double approximate = value->is_number() ? value->get<double>() : NAN; // 10.0 counts as whole
  if (!(approximate >= static_cast<double>(lowest) && approximate <= static_cast<double>(highest)) ||
      approximate != std::floor(approximate))
    throw_invalid(path_of(name), "{}: expected a whole number from {} to {}", path_of(name), lowest, highest);
  return value->get<int64_t>();
}

std::optional<std::string> Fields::text(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw_invalid(path_of(name), "{}: expected a string", path_of(name));
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const char* name, size_t most) const {
  const Json* value = find(name);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (!value->is_array() || value->size() > most || !std::ranges::all_of(*value, is_text))
    throw_invalid(path_of(name), "{}: expected a string or a list of at most {} strings", path_of(name), most);
  return value->get<std::vector<std::string>>();
}

std::optional<Fields> Fields::object(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  return Fields(*value, path_of(name));
}

} // namespace ridge::server
