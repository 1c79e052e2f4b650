// A file that a server serves, and what clients call its model.
#pragma once

#include "server/models/served_model.h"

#include <memory>
#include <string>
#include <vector>

namespace ridge::server {

struct ModelFile {
  std::string name, path;                            // what clients call it
  std::string mmproj = {};                           // its encoder of pictures or sounds; empty: none
  std::vector<std::string> aliases = {};             // other names that requests may use
  bool pinned = false;                               // once loaded, it stays
  std::shared_ptr<const ModelSetup> setup = nullptr; // its own; null: that of all
};

// The GGUF files of a folder, by name; of a split model its first part. Throws Error where it cannot be read or has
// none.
std::vector<ModelFile> model_files(const std::string& folder);
// What clients call the model of a file: its name without ".gguf" and the number of its part.
std::string model_name(const std::string& path);

} // namespace ridge::server
