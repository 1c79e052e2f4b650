#include "server/requests/form.h"

#include "server/json/api_error.h"

#include <algorithm>
#include <strings.h>

namespace ridge::server {
namespace {

constexpr std::string_view kFormType = "multipart/form-data", kLineEnd = "\r\n";

bool same_without_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// For `form-data; name="file"; filename="a \"b\".wav"`. Empty if absent.
std::string parameter_of(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at < header.size()) {
    const size_t equals = header.find('=', ++at);
    if (equals == header.npos) break;
    const std::string_view found = trimmed(header.substr(at, equals - at));
    std::string value;
    at = equals + 1;
    const bool quoted = at < header.size() && header[at] == '"';
    if (quoted) ++at;
    for (; at < header.size() && header[at] != (quoted ? '"' : ';'); ++at) {
      if (quoted && header[at] == '\\' && at + 1 < header.size()) ++at;
      value += header[at];
    }
    at = std::min(header.find(';', at), header.size());
    if (same_without_case(found, name)) return quoted ? value : std::string(trimmed(value));
  }
  return {};
}

FormPart named_by(std::string_view head) {
  FormPart part;
  while (!head.empty()) {
    const size_t end = head.find(kLineEnd);
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end == head.npos ? head.size() : end + kLineEnd.size());
    const size_t colon = line.find(':');
    if (colon == line.npos || !same_without_case(line.substr(0, colon), "Content-Disposition")) continue;
    part.name = parameter_of(line, "name");
    part.file = parameter_of(line, "filename");
  }
  return part;
}

[[noreturn]] void refuse(const char* problem) { throw_invalid("", "multipart/form-data: {}", problem); }

} // namespace

bool has_form(const HttpRequest& request) {
  const std::string_view type = request.header("Content-Type").value_or("");
  return same_without_case(trimmed(type.substr(0, type.find(';'))), kFormType);
}

std::vector<FormPart> read_form(const HttpRequest& request) {
  constexpr size_t kMaxBoundaryBytes = 70, kMaxParts = 64, kMaxHeadBytes = 8192;
  if (!has_form(request)) throw_invalid("", "Content-Type: expected {}: send the file as a form field", kFormType);
  const std::string boundary = parameter_of(request.header("Content-Type").value_or(""), "boundary");
  if (boundary.empty() || boundary.size() > kMaxBoundaryBytes) refuse("expected a boundary of 1 to 70 characters");
  const std::string mark = "--" + boundary, next = std::string(kLineEnd) + mark;
  std::string_view body = request.body;
  if (!body.starts_with(mark)) {
    const size_t first = body.find(next);
    if (first == body.npos) refuse("the boundary is missing in the body");
    body.remove_prefix(first + kLineEnd.size());
  }
  std::vector<FormPart> parts;
  for (body.remove_prefix(mark.size()); !body.starts_with("--");) {
    if (!body.starts_with(kLineEnd)) refuse("unexpected text after the boundary");
    constexpr std::string_view kHeadEnd = "\r\n\r\n";
    const size_t head = body.substr(0, kMaxHeadBytes).find(kHeadEnd);
    if (head == body.npos) refuse("the headers of a part have no end");
    if (parts.size() == kMaxParts) refuse("it has more than 64 parts");
    FormPart part = named_by(body.substr(kLineEnd.size(), head < kLineEnd.size() ? 0 : head - kLineEnd.size()));
    body.remove_prefix(head + kHeadEnd.size());
    const size_t end = body.find(next);
    if (end == body.npos) refuse("the body is truncated");
    part.content = body.substr(0, end);
    parts.push_back(std::move(part));
    body.remove_prefix(end + next.size());
  }
  return parts;
}

std::optional<std::string_view> field_of(const std::vector<FormPart>& form, std::string_view name) {
  const auto found = std::ranges::find(form, name, &FormPart::name);
  return found == form.end() ? std::nullopt : std::optional(found->content);
}

} // namespace ridge::server
