// The parts of a body of multipart/form-data, as clients upload files. Hostile: within limits, and every part ends.
#pragma once

#include "server/http/message.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::server {

struct FormPart {
  std::string name, file; // of the field; of the file, where it is one
  std::string_view content;
};

bool has_form(const HttpRequest& request);
// Parts of the body, which must outlive them. Throws ApiError where it has no such form, no boundary, more parts or
// longer heads than any client sends, or ends early.
std::vector<FormPart> read_form(const HttpRequest& request);
// The content of the first part of that name.
std::optional<std::string_view> field_of(const std::vector<FormPart>& form, std::string_view name);

} // namespace ridge::server
