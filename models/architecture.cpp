#include "models/architecture.h"

#include <algorithm>
#include <array>

namespace ridge::models {
std::span<const Architecture> architecture_table() {
  static const auto kArchitectures = std::to_array<Architecture>({
#define RIDGE_ARCH(name, file, ...) {name, arch::file, {__VA_ARGS__}},
#include "models/arches.def"
#undef RIDGE_ARCH
  });
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(architecture_table(), name, &Architecture::name);
  return found == architecture_table().end() ? nullptr : &*found;
}

} // namespace ridge::models
