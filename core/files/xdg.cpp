#include "core/files/xdg.h"

#include <cstdlib>

namespace ridge::core {
namespace {

std::string folder(const char* variable, const char* below_home) {
  const char* named = std::getenv(variable);
  if (named && *named == '/') return std::string(named) + "/ridge"; // the specification ignores relative paths
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + below_home + "/ridge" : "";
}

} // namespace

std::string config_folder() { return folder("XDG_CONFIG_HOME", "/.config"); }
std::string state_folder() { return folder("XDG_STATE_HOME", "/.local/state"); }
std::string cache_folder() { return folder("XDG_CACHE_HOME", "/.cache"); }
std::string data_folder() { return folder("XDG_DATA_HOME", "/.local/share"); }

} // namespace ridge::core
