#include "app/window/presets.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"
#include "engine/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

api::Preset preset_of(const Json& json, const std::string& place) try {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
    throw_error("expected an object with \"name\"");
  api::Preset preset;
  preset.name = json["name"].get<std::string>();
  if (json.contains("system") && json["system"].is_string()) preset.system = json["system"].get<std::string>();
  if (!json.contains("sampling")) return preset;
  if (!json["sampling"].is_object()) throw_error("\"sampling\" is not an object");
  api::SamplingOptions sampling;
  for (const auto& [name, value] : json["sampling"].items())
    for (const engine::SamplingSetting& setting : engine::sampling_settings())
      if (name == setting.name && value.is_string()) setting.set(sampling, value.get<std::string>());
  core::validate(sampling.params);
  preset.sampling = sampling.params;
  preset.max_tokens = sampling.max_tokens;
  return preset;
} catch (const Error& error) {
  throw_error("{}: {}", place, error.what());
}

// Only what differs from the defaults.
Json sampling_of(const api::Preset& preset) {
  api::SamplingOptions sampling;
  const api::SamplingOptions usual;
  sampling.params = preset.sampling;
  sampling.max_tokens = preset.max_tokens;
  Json json = Json::object();
  for (const engine::SamplingSetting& setting : engine::sampling_settings())
    if (const std::string value = setting.get(sampling); value != setting.get(usual))
      json[std::string(setting.name)] = value;
  return json;
}

} // namespace

std::vector<api::Preset> read_presets(const std::string& path) {
  std::error_code none;
  std::vector<api::Preset> presets;
  if (path.empty() || !std::filesystem::exists(path, none)) return presets;
  const Json json = core::parse_json(core::read_text_file(path), path);
  if (!json.is_object() || !json.contains("presets") || !json["presets"].is_array())
    throw_error("{}: expected an object with a list of \"presets\"", path);
  for (const Json& preset : json["presets"])
    presets.push_back(preset_of(preset, fmt::format("{}: preset {}", path, presets.size() + 1)));
  std::ranges::sort(presets, {}, &api::Preset::name);
  return presets;
}

void write_presets(const std::string& path, const std::vector<api::Preset>& presets) {
  Json list = Json::array();
  for (const api::Preset& preset : presets)
    list.push_back({{"name", preset.name}, {"system", preset.system}, {"sampling", sampling_of(preset)}});
  const std::string text = Json{{"presets", list}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::error_code ignored; // AtomicFile reports a missing folder
  core::create_private_folders(std::filesystem::path(path).parent_path().string(), ignored);
  core::AtomicFile file(path, text.size(), core::kPrivateFile);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

} // namespace ridge::app
