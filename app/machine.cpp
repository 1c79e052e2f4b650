#include "app/machine.h"

#include <fstream>

namespace ridge::app {

std::string proc_field(const char* path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

} // namespace ridge::app
