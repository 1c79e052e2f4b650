// Parses multipart/form-data of untrusted clients.
#pragma once

#include "server/http/message.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::server {

struct FormPart {
  std::string name, file; // file: empty for other fields
  std::string_view content;
};

bool has_form(const HttpRequest& request);
// Parts point into the body. Throws ApiError for other types, a missing boundary, excessive parts or heads, and a
// truncated body.
std::vector<FormPart> read_form(const HttpRequest& request);
std::optional<std::string_view> field_of(const std::vector<FormPart>& form, std::string_view name);

} // namespace ridge::server
