#include "app/terminal/piped_text.h"

#include "app/terminal/terminal.h"
#include "core/files/read_file.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ridge::app {
namespace {

constexpr int kPatienceMs = 1000;

} // namespace

std::string piped_text() {
  struct stat input = {};
  if (::fstat(STDIN_FILENO, &input) != 0) return {};
  if (!S_ISFIFO(input.st_mode) && !S_ISREG(input.st_mode) && !S_ISSOCK(input.st_mode)) return {};
  pollfd waits = {STDIN_FILENO, POLLIN, 0};
  if (::poll(&waits, 1, kPatienceMs) == 0) note("reading standard input from a pipe; use </dev/null to skip it");
  std::string text = core::read_text_file("-");
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

} // namespace ridge::app
