// What is wrong with a request, as the client is told.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ridge::server {

struct ApiError : std::runtime_error {
  int status;            // of HTTP
  std::string type;      // "invalid_request_error", …
  std::string parameter; // of the body; empty: none in particular
  std::string code;      // "context_length_exceeded", …, which OpenAI's clients look for; empty: none
  std::vector<std::pair<std::string, int64_t>> numbers; // that the answer has beside the message

  ApiError(int status, std::string type, const std::string& message, std::string parameter = {}, std::string code = {})
      : std::runtime_error(message), status(status), type(std::move(type)), parameter(std::move(parameter)),
        code(std::move(code)) {}
};

template <typename... Args>
[[noreturn]] void throw_invalid(const std::string& parameter, fmt::format_string<Args...> format, Args&&... args) {
  throw ApiError(400, "invalid_request_error", fmt::format(format, std::forward<Args>(args)...), parameter);
}

} // namespace ridge::server
