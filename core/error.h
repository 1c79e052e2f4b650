// The one exception type for everything that is not our own bug: files, flags, templates, requests, devices.
// The message is one line that says what is wrong, where (file, offset or field) and what to do about it.
// `main` prints it as "ridge: error: <message>" and exits with `exit_code`.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace ridge::core {

class Error : public std::runtime_error {
 public:
  static constexpr int kFailed = 1; // the input or the machine is at fault
  static constexpr int kUsage = 2;  // the command line is at fault

  explicit Error(const std::string& message, int exit_code = kFailed)
      : std::runtime_error(message), exit_code(exit_code) {}

  int exit_code;
};

// throw_error("{}: offset {}: …", path, offset) formats and throws an Error.
template <typename... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

} // namespace ridge::core

namespace ridge {
using core::Error;
using core::throw_error;
} // namespace ridge
