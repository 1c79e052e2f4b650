// An error in a request, as the client sees it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ridge::server {

struct ApiError : std::runtime_error {
  int status;
  std::string type;
  std::string parameter;                                // may be empty
  std::string code;                                     // "context_length_exceeded", … (OpenAI); may be empty
  std::vector<std::pair<std::string, int64_t>> numbers; // further members of the response

  ApiError(int status, std::string type, const std::string& message, std::string parameter = {}, std::string code = {})
      : std::runtime_error(message), status(status), type(std::move(type)), parameter(std::move(parameter)),
        code(std::move(code)) {}
};

template <typename... Args>
[[noreturn]] void throw_invalid(const std::string& parameter, fmt::format_string<Args...> format, Args&&... args) {
  throw ApiError(400, "invalid_request_error", fmt::format(format, std::forward<Args>(args)...), parameter);
}

} // namespace ridge::server
