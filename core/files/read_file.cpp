#include "core/files/read_file.h"

#include "core/error.h"
#include "core/files/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>

namespace ridge::core {

std::string read_text_file(const std::string& path, int64_t most) {
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) throw_error("{}: cannot open: {}", path, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (most >= 0 && std::ssize(text) > most) throw_error("{}: has more than {} bytes", path, most);
  }
  if (std::ferror(file.get())) throw_error("{}: cannot read: {}", path, std::strerror(errno));
  return text;
}

void check_output(const std::string& path, std::initializer_list<std::string> inputs) {
  std::error_code none_there;
  for (const std::string& input : inputs)
    if (std::filesystem::equivalent(path, input, none_there))
      throw_error("{}: is also an input; choose another output file", path);
  const AtomicFile trial(path, 0); // discarded
}

} // namespace ridge::core
