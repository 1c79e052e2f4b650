#include "core/kv_type.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::core {

KvType kv_type_of(std::string_view name) {
  const auto* const format = std::ranges::find(kKvFormats, name, &KvFormat::name);
  if (format == std::end(kKvFormats)) throw_error("'{}' is no type of a KV cache", name);
  return static_cast<KvType>(format - kKvFormats);
}

std::vector<std::string> kv_type_names() {
  std::vector<std::string> names;
  for (const KvFormat& format : kKvFormats) names.emplace_back(format.name);
  return names;
}

} // namespace ridge::core
