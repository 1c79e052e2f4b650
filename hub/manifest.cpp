#include "hub/manifest.h"

#include "hub/names.h"

#include <nlohmann/json.hpp>

namespace ridge::hub {

std::optional<std::string> model_blob(std::string_view manifest) {
  constexpr std::string_view kType = "application/vnd.ollama.image.model", kKind = "sha256:";
  const nlohmann::json parsed = nlohmann::json::parse(manifest, nullptr, false);
  const auto layers = parsed.is_object() ? parsed.find("layers") : parsed.end();
  if (!parsed.is_object() || layers == parsed.end() || !layers->is_array()) return std::nullopt;
  std::optional<std::string> found;
  for (const nlohmann::json& layer : *layers) {
    if (!layer.is_object()) continue;
    const auto type = layer.find("mediaType"), digest = layer.find("digest");
    if (type == layer.end() || *type != kType || digest == layer.end() || !digest->is_string()) continue;
    const std::string& hash = digest->get_ref<const std::string&>();
    if (found || !hash.starts_with(kKind) || !is_hash(std::string_view(hash).substr(kKind.size()), 64))
      return std::nullopt;
    found = "sha256-" + hash.substr(kKind.size());
  }
  return found;
}

} // namespace ridge::hub
