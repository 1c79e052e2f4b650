// The table of architectures: a row of models/arches.def and a file of models/arch/ for each.
#pragma once

#include "models/checkpoint.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

class Builder;

// What an architecture's file defines.
struct ArchitectureFile {
  void (*build)(Builder&);    // appends the ops of a model
  Checkpoint checkpoint = {}; // of rows that have none of their own
};

struct Architecture {
  std::string_view name; // general.architecture
  const ArchitectureFile& file;
  std::string_view models, layers; // for people: what is known by it ("Qwen 3 dense"), what a layer is
  // Classes that "architectures" of config.json names. "CLASS with experts" and "CLASS without experts" are two models
  // of one class.
  std::vector<std::string_view> hf_classes;

  const Checkpoint& checkpoint() const; // the file's, or its own of models/checkpoints/rows.def
};

std::span<const Architecture> architecture_table();           // rows of arches.def in their order
const Architecture* find_architecture(std::string_view name); // nullptr: unknown
std::string architectures_as_markdown();                      // the table of docs/models.md

namespace arch {
#define RIDGE_ARCH(name, file, models, layers, ...) extern const ArchitectureFile file;
#include "models/arches.def"
#undef RIDGE_ARCH
} // namespace arch

} // namespace ridge::models
