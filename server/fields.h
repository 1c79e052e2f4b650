// Reads a request's JSON: every member is checked for type and range, and an error names where it is.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::server {

using Json = nlohmann::ordered_json;

// Takes a time that grows with the body's length alone. Throws ApiError where `body` is no JSON object, is not UTF-8,
// nests deeper than any request needs, or has more members in an object or more objects and lists than any needs.
Json parse_body(const std::string& body);
Json parse_list(const std::string& body); // the same for a body that is a list

// The members of an object. Absent ones and null are the same. All functions throw ApiError.
class Fields {
 public:
  // `path` stands for the object in errors: "stream_options"; empty for the body itself. `object` must outlive this.
  Fields(const Json& object, std::string path);

  const Json* find(const char* name) const; // null: absent
  std::optional<bool> flag(const char* name) const;
  std::optional<int64_t> integer(const char* name, int64_t lowest, int64_t highest) const;
  std::optional<double> number(const char* name, double lowest, double highest) const;
  std::optional<std::string> text(const char* name) const;
  std::vector<std::string> texts(const char* name, size_t most) const; // of a string or a list of them
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
