#include "convert/import/config/json_file.h"

#include "core/error.h"
#include "core/files/mapped_file.h"
#include "core/json/parse.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace ridge::convert::import {
namespace {

constexpr size_t kMaxFileBytes = 128 << 20; // the largest known tokenizer.json has 33 MB

// Replaces Python's NaN and infinities outside strings by null, padded with spaces.
void drop_infinities(std::string& text) {
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (in_string && text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      in_string = !in_string;
    else if (!in_string && (text[at] == 'I' || text[at] == 'N' || text[at] == '-'))
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
        if (text.compare(at, word.size(), word) == 0)
          text.replace(at, word.size(), "null" + std::string(std::max<size_t>(word.size(), 4) - 4, ' '));
  }
}

} // namespace

std::optional<std::string> read_text_file(const std::string& folder, std::string_view name) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const core::MappedFile file(path.string());
  if (file.bytes().size() > kMaxFileBytes)
    throw_error("{}: has {} bytes, expected at most {}", path.string(), file.bytes().size(), kMaxFileBytes);
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Json read_json_file(const std::string& folder, std::string_view name) {
  auto text = read_text_file(folder, name);
  if (!text) return nullptr;
  drop_infinities(*text);
  const std::string path = (std::filesystem::path(folder) / name).string();
  Json document = core::parse_json<Json>(*text, path);
  if (!document.is_object()) throw_error("{}: expected a JSON object", path);
  return document;
}

std::string JsonFiles::path(std::string_view name) const { return (std::filesystem::path(folder_) / name).string(); }

const Json& JsonFiles::get(std::string_view name) {
  const auto found = read_.find(name);
  return found != read_.end() ? found->second : read_.emplace(name, read_json_file(folder_, name)).first->second;
}

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw_error("{}: expected a JSON object", where_);
}

std::string Fields::where(std::string_view key) const { return fmt::format("{}: {}", where_, key); }

const Json* Fields::find(std::string_view key) const {
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<int64_t> Fields::find_int(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) throw_error("{}: is too large", where(key));
  if (value->is_number_integer()) return value->get<int64_t>();
  if (value->is_number_float()) { // some writers spell integers as 1e4 or 8192.0
    const double number = value->get<double>();
    if (std::abs(number) < 1e15 && number == std::floor(number)) return static_cast<int64_t>(number);
  }
  throw_error("{}: expected an integer", where(key));
}

std::optional<double> Fields::find_number(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) throw_error("{}: expected a number", where(key));
  return value->get<double>();
}

std::optional<bool> Fields::find_bool(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw_error("{}: expected true or false", where(key));
  return value->get<bool>();
}

std::optional<std::string> Fields::find_string(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw_error("{}: expected a string", where(key));
  return value->get<std::string>();
}

int64_t Fields::get_int(std::string_view key, int64_t low, int64_t high) const {
  const auto value = find_int(key);
  if (!value) throw_error("{}: is missing", where(key));
  if (*value < low || *value > high) throw_error("{}: is {}, expected {} to {}", where(key), *value, low, high);
  return *value;
}

int64_t Fields::get_int(std::string_view key, int64_t low, int64_t high, int64_t absent) const {
  return find(key) ? get_int(key, low, high) : absent;
}

double Fields::get_number(std::string_view key, double absent) const {
  const double value = find_number(key).value_or(absent);
  if (!std::isfinite(value)) throw_error("{}: is not finite", where(key));
  return value;
}

std::string Fields::get_string(std::string_view key) const {
  const auto value = find_string(key);
  if (!value) throw_error("{}: is missing", where(key));
  return *value;
}

} // namespace ridge::convert::import
