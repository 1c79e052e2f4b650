// Untrusted JSON: limited size, typed look-ups.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::convert::import {

using Json = nlohmann::json;

// Null if missing; NaN and Infinity become null. Throws Error if unreadable or no object.
Json read_json_file(const std::string& folder, std::string_view name);
std::optional<std::string> read_text_file(const std::string& folder, std::string_view name);

// Caches the JSON files of a folder.
class JsonFiles {
 public:
  explicit JsonFiles(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string path(std::string_view name) const;
  // The reference is valid as long as this object.
  const Json& get(std::string_view name);

 private:
  const std::string folder_;
  std::map<std::string, Json, std::less<>> read_;
};

// null counts as absent. Errors begin with `where`.
class Fields {
 public:
  // Throws Error unless an object. It must outlive this.
  Fields(const Json& object, std::string where);

  const Json* find(std::string_view key) const;
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;

  int64_t get_int(std::string_view key, int64_t low, int64_t high) const;
  int64_t get_int(std::string_view key, int64_t low, int64_t high, int64_t absent) const;
  double get_number(std::string_view key, double absent) const;
  bool get_bool(std::string_view key, bool absent) const { return find_bool(key).value_or(absent); }
  std::string get_string(std::string_view key) const;

  const std::string& where() const { return where_; }
  std::string where(std::string_view key) const; // "config.json: rope_scaling.factor"

 private:
  const Json& object_;
  std::string where_;
};

} // namespace ridge::convert::import
