// What is wrong with a request, as the client is told.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ridge::server {

struct ApiError : std::runtime_error {
  int status;            // of HTTP
  std::string type;      // "invalid_request_error", …
  std::string parameter; // of the body; empty: none in particular

  ApiError(int status, std::string type, const std::string& message, std::string parameter = {})
      : std::runtime_error(message), status(status), type(std::move(type)), parameter(std::move(parameter)) {}
};

template <typename... Args>
[[noreturn]] void throw_invalid(const std::string& parameter, fmt::format_string<Args...> format, Args&&... args) {
  throw ApiError(400, "invalid_request_error", fmt::format(format, std::forward<Args>(args)...), parameter);
}

} // namespace ridge::server
