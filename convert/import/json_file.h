// The JSON files of a checkpoint, which are untrusted. Files have a size limit, and each look-up checks the type of its
// field: an Error names the file and the field.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::convert::import {

using Json = nlohmann::json;

// The file's document, with null for the NaN and Infinity that Python writes; null if there is no such file. Throws
// Error if it cannot be read or is not a JSON object.
Json read_json_file(const std::string& folder, std::string_view name);
// The whole text of a file; nullopt if there is no such file.
std::optional<std::string> read_text_file(const std::string& folder, std::string_view name);

// The JSON files of a checkpoint's folder that several readers ask for. Each is read once, when it is first asked for.
class JsonFiles {
 public:
  explicit JsonFiles(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string path(std::string_view name) const; // for messages
  // As read_json_file. The document stays where it is as long as this.
  const Json& get(std::string_view name);

 private:
  const std::string folder_;
  std::map<std::string, Json, std::less<>> read_;
};

// Typed look-ups in one object. A field that is null counts as absent. Errors begin with `where`.
class Fields {
 public:
  // Throws Error if `object` is not a JSON object. It must outlive this.
  Fields(const Json& object, std::string where);

  const Json* find(std::string_view key) const; // nullptr: absent or null
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;

  int64_t get_int(std::string_view key, int64_t low, int64_t high) const; // required
  int64_t get_int(std::string_view key, int64_t low, int64_t high, int64_t absent) const;
  double get_number(std::string_view key, double absent) const;
  bool get_bool(std::string_view key, bool absent) const { return find_bool(key).value_or(absent); }
  std::string get_string(std::string_view key) const; // required

  const std::string& where() const { return where_; }
  std::string where(std::string_view key) const; // "config.json: rope_scaling.factor"

 private:
  const Json& object_;
  std::string where_;
};

} // namespace ridge::convert::import
