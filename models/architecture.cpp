#include "models/architecture.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace ridge::models {
namespace {

// With an empty entry at the end, because an array cannot be empty.
#define RIDGE_ARCH(name, file, ...) constexpr std::string_view kClassesOf_##file[] = {__VA_ARGS__ __VA_OPT__(, ) ""};
#include "models/arches.def"
#undef RIDGE_ARCH

constexpr auto kArchitectures = std::to_array<Architecture>({
#define RIDGE_ARCH(name, file, ...) {name, arch::file, {kClassesOf_##file, std::size(kClassesOf_##file) - 1}},
#include "models/arches.def"
#undef RIDGE_ARCH
});

} // namespace

std::span<const Architecture> architecture_table() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

} // namespace ridge::models
