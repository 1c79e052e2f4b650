// The process's standard streams. Results go to stdout, and one that cannot be written is an error. Everything else
// goes to stderr, and nothing fails because of that.
#pragma once

#include "core/error.h"

#include <cstddef>
#include <string_view>

namespace ridge::app {

// For the start of the process, before a file is opened: standard streams that are missing become /dev/null, so that no
// file gets their numbers and with them what is printed. Also, a file that reaches the limit on sizes (ulimit -f) is an
// error where it is written, not a signal. False where there is no /dev/null.
bool open_missing_streams();

// stdout cannot be written. This ends the command, where another error may end only a part of it.
struct OutputError : Error {
  using Error::Error;
};

// To stdout at once, behind what fmt::print has buffered. Throws OutputError.
void write_stdout(std::string_view text);
// Writes what is buffered. Throws OutputError where that, or anything printed before, could not be written.
void flush_stdout();

// Waits for a descriptor until it has taken all of a text. Returns how many bytes it has taken: fewer, with errno,
// where it fails.
size_t write_whole(int file, std::string_view text) noexcept;

// To stderr. Text that cannot be written is lost.
void write_stderr(std::string_view text) noexcept;
// From now on another thread writes to stderr (LogQueue), and write_stderr waits for no reader.
void write_stderr_in_background();
// Gives what waits for that thread a second to be written; for the end of the process.
void drain_stderr() noexcept;

} // namespace ridge::app
