// The table of architectures: rows of models/arches.def.
#pragma once

#include "models/checkpoints/checkpoint.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

class Builder;

struct ArchitectureFile {
  void (*build)(Builder&);
  Checkpoint checkpoint = {}; // for rows without their own in models/checkpoints/rows.def
};

struct Architecture {
  std::string_view name;
  const ArchitectureFile& file;
  std::string_view models, layers; // shown to users: model names ("Qwen 3 dense"), kinds of layers
  // In config.json. "CLASS with experts" and "CLASS without experts" share a class.
  std::vector<std::string_view> hf_classes;

  const Checkpoint& checkpoint() const;
};

std::span<const Architecture> architecture_table();
const Architecture* find_architecture(std::string_view name);
std::string architectures_as_markdown();

namespace arch {
#define RIDGE_ARCH(name, file, models, layers, ...) extern const ArchitectureFile file;
#include "models/arches.def"
#undef RIDGE_ARCH
} // namespace arch

} // namespace ridge::models
