// Presets and load settings in the window's engine.
#include "app/window/loaded.h"
#include "app/window/presets.h"

#include <algorithm>

namespace ridge::app {

void WindowEngine::save_preset(const std::string& name) {
  if (name.empty()) return;
  std::vector<api::Preset> presets = state().presets;
  std::erase_if(presets, [&](const api::Preset& each) { return each.name == name; });
  presets.push_back({name, state().system_prompt, state().sampling, state().max_tokens});
  store_presets(std::move(presets));
}

void WindowEngine::delete_preset(const std::string& name) {
  std::vector<api::Preset> presets = state().presets;
  std::erase_if(presets, [&](const api::Preset& each) { return each.name == name; });
  store_presets(std::move(presets));
}

void WindowEngine::store_presets(std::vector<api::Preset> presets) {
  std::ranges::sort(presets, {}, &api::Preset::name);
  if (!setup_.preset_file.empty()) write_presets(setup_.preset_file, presets);
  change([&](api::Snapshot& s) { s.presets = std::move(presets); });
}

void WindowEngine::use_preset(const std::string& name) {
  const auto found = std::ranges::find(state().presets, name, &api::Preset::name);
  if (found == state().presets.end()) return;
  const api::Preset preset = *found;
  set_system(preset.system);
  set_sampling({preset.sampling, preset.max_tokens});
}

} // namespace ridge::app
