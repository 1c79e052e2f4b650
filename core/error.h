// The exception for everything but bugs. The message is one line: what is wrong, where (file, offset, field) and what
// to do. main prints "ridge: error: <message>" and exits with exit_code.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace ridge::core {

class Error : public std::runtime_error {
 public:
  static constexpr int kFailed = 1; // bad input or machine
  static constexpr int kUsage = 2;  // bad command line

  explicit Error(const std::string& message, int exit_code = kFailed)
      : std::runtime_error(message), exit_code(exit_code) {}

  int exit_code;
};

// throw_error("{}: offset {}: …", path, offset)
template <typename... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

} // namespace ridge::core

namespace ridge {
using core::Error;
using core::throw_error;
} // namespace ridge
