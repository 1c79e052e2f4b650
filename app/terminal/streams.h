// Results go to stdout, and failed writes are errors. Everything else goes to stderr, without errors.
#pragma once

#include "core/error.h"

#include <cstddef>
#include <string_view>

namespace ridge::app {

// Call before opening files. Replaces missing streams by /dev/null, so that no file gets their descriptors. Ignores
// SIGXFSZ, so that a file size limit is a write error. Returns false without /dev/null.
bool open_missing_streams();

// Ends the whole command, unlike other errors.
struct OutputError : Error {
  using Error::Error;
};

// Writes at once, after fmt::print's buffer. Throws OutputError.
void write_stdout(std::string_view text);
// Throws OutputError if this or earlier output failed.
void flush_stdout();

// Waits until all is written. Returns the bytes written: fewer, with errno set, on failure.
size_t write_whole(int file, std::string_view text) noexcept;

void write_stderr(std::string_view text) noexcept;
// From now on a thread (LogQueue) writes, and write_stderr never blocks.
void write_stderr_in_background();
// Waits for that thread up to one second, at the end of the process.
void drain_stderr() noexcept;

} // namespace ridge::app
