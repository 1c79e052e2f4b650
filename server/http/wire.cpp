#include "server/http/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ridge::server {
namespace {

const char* reason_phrase(int status) {
  switch (status) {
  case 200: return "OK";
  case 204: return "No Content";
  case 400: return "Bad Request";
  case 401: return "Unauthorized";
  case 403: return "Forbidden";
  case 404: return "Not Found";
  case 405: return "Method Not Allowed";
  case 408: return "Request Timeout";
  case 411: return "Length Required";
  case 413: return "Content Too Large";
  case 415: return "Unsupported Media Type";
  case 429: return "Too Many Requests";
  case 431: return "Request Header Fields Too Large";
  case 500: return "Internal Server Error";
  case 501: return "Not Implemented";
  case 503: return "Service Unavailable";
  case 505: return "HTTP Version Not Supported";
  case 529: return "Overloaded";
  default: return status < 300 ? "OK" : "Error";
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Invalid escapes stay.
std::string decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    const int high = escape ? hex_digit(text[i + 1]) : -1, low = escape ? hex_digit(text[i + 2]) : -1;
    if (high >= 0 && low >= 0) {
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

} // namespace

bool take_target(std::string_view target, HttpRequest& request) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (target.starts_with(scheme)) {
      const size_t slash = target.find('/', scheme.size());
      target = slash == std::string_view::npos ? "/" : target.substr(slash);
    }
  if (target == "*" && request.method == "OPTIONS") target = "/";
  if (!target.starts_with('/')) return false;
  target = target.substr(0, target.find('#'));
  const size_t mark = std::min(target.find('?'), target.size());
  request.path = decode(target.substr(0, mark), false);
  for (std::string_view query = target.substr(std::min(mark + 1, target.size())); !query.empty();) {
    const std::string_view one = query.substr(0, query.find('&'));
    const size_t equals = std::min(one.find('='), one.size());
    request.parameters.emplace_back(decode(one.substr(0, equals), true),
                                    decode(one.substr(std::min(equals + 1, one.size())), true));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
  }
  return true;
}

std::string response_head(const HttpResponse& response, Framing framing, size_t length, bool keep_open) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  for (const auto& [name, value] : response.headers)
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  if (response.status != 204) fmt::format_to(std::back_inserter(head), "Content-Type: {}\r\n", response.content_type);
  if (framing == Framing::chunks) head += "Transfer-Encoding: chunked\r\n";
  if (framing == Framing::length && response.status != 204)
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", length);
  return head + (keep_open ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

std::string chunk(std::string_view bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

} // namespace ridge::server
