// Reads JSON with checks of types and ranges; errors name the member.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::server {

using Json = nlohmann::ordered_json;

// Takes time linear in the body's length. Throws ApiError for anything but a JSON object in UTF-8, and for excessive
// depth or size.
Json parse_body(const std::string& body);
Json parse_list(const std::string& body);

// A null member counts as absent. All functions throw ApiError.
class Fields {
 public:
  // `path` is for errors; empty: the body. `object` must outlive this.
  Fields(const Json& object, std::string path);

  const Json* find(const char* name) const;
  std::optional<bool> flag(const char* name) const;
  std::optional<int64_t> integer(const char* name, int64_t lowest, int64_t highest) const;
  std::optional<double> number(const char* name, double lowest, double highest) const;
  std::optional<std::string> text(const char* name) const;
  std::vector<std::string> texts(const char* name, size_t most) const; // a string or a list
  std::optional<Fields> object(const char* name) const;
  const Json& required(const char* name) const;

  const Json& json() const { return object_; }
  const std::string& path() const { return path_; }
  std::string path_of(const char* name) const;

 private:
  const Json& object_;
  std::string path_;
};

} // namespace ridge::server
