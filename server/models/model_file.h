// A served file and the names of its model.
#pragma once

#include "server/models/served_model.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ridge::server {

struct ModelFile {
  std::string name, path;
  std::string mmproj = {};
  std::vector<std::string> aliases = {};
  bool pinned = false;                               // never unloaded
  std::shared_ptr<const ModelSetup> setup = nullptr; // null: the server's
};

// Lists the folder and its subfolders; a subfolder's only model has its name. `is_model` tells by a file's name. Lists
// only the first part of a split model. Throws Error if the folder is unreadable or has none.
std::vector<ModelFile> model_files(
    const std::string& folder,
    const std::function<bool(const std::string& name)>& is_model = [](const auto&) { return true; });
// Without part number and ".gguf".
std::string model_name(const std::string& path);

} // namespace ridge::server
