#include "models/architecture.h"

#include "models/checkpoints/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ridge::models {
std::span<const Architecture> architecture_table() {
  static const auto kArchitectures = std::to_array<Architecture>({
#define RIDGE_ARCH(name, file, models, layers, ...) {name, arch::file, models, layers, {__VA_ARGS__}},
#include "models/arches.def"
#undef RIDGE_ARCH
  });
  return kArchitectures;
}

const Checkpoint& Architecture::checkpoint() const {
  static constexpr auto kOwn = std::to_array<std::pair<std::string_view, const Checkpoint*>>({
#define RIDGE_CHECKPOINT(name, object) {name, &checkpoints::object},
#include "models/checkpoints/rows.def"
#undef RIDGE_CHECKPOINT
  });
  const auto own = std::ranges::find(kOwn, name, &std::pair<std::string_view, const Checkpoint*>::first);
  return own == kOwn.end() ? file.checkpoint : *own->second;
}

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(architecture_table(), name, &Architecture::name);
  return found == architecture_table().end() ? nullptr : &*found;
}

std::string architectures_as_markdown() {
  std::string text = "| architecture | models | layers | from checkpoints |\n| --- | --- | --- | --- |\n";
  for (const Architecture& row : architecture_table())
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.name, row.models, row.layers,
                        row.hf_classes.empty() ? "no" : "yes");
  return text;
}

} // namespace ridge::models
