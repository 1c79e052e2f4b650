#include "core/json/state_file.h"

#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/files/xdg.h"
#include "core/json/parse.h"

#include <filesystem>
#include <span>

namespace ridge::core {

using Json = nlohmann::ordered_json;

Json read_state(const std::string& name) {
  const std::string folder = state_folder(), path = folder + "/" + name;
  std::error_code none;
  if (folder.empty() || !std::filesystem::is_regular_file(path, none)) return Json::object();
  try {
    Json object = parse_json(read_text_file(path), path);
    if (object.is_object()) return object;
  } catch (const Error&) { // it is learned again
  }
  return Json::object();
}

void write_state(const std::string& name, const Json& object) try {
  if (state_folder().empty()) return;
  std::error_code ignored;
  create_private_folders(state_folder(), ignored);
  const std::string text = object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  AtomicFile file(state_folder() + "/" + name, text.size(), kPrivateFile);
  file.write(std::as_bytes(std::span(text)));
  file.publish();
} catch (const Error&) { // read-only home
}

} // namespace ridge::core
