// Shows how a model fits with load settings, and keeps presets.
#include "app/models/model_row.h"
#include "app/window/loaded.h"
#include "app/window/presets.h"
#include "app/window_words.h"
#include "core/error.h"
#include "engine/loading/fit.h"
#include "measure/peaks/kept_peaks.h"

#include <algorithm>
#include <filesystem>

namespace ridge::app {
namespace {

api::FitFacts::Device device_of(const engine::Need& need, double free) {
  return {static_cast<double>(need.weights), static_cast<double>(need.cache + need.state),
          static_cast<double>(need.scratch + need.reserve), free};
}

double peak_of(engine::Device on, int threads) {
  const auto kept = measure::stored_read_peak(measure::device_name(on, on == engine::Device::cpu ? threads : 0));
  return kept ? kept->best : 0;
}

void add_speed(api::FitFacts& facts, const engine::Fit& fit, int threads) {
  const double cpu = fit.cpu ? peak_of(engine::Device::cpu, threads) : 1;
  const double gpu = fit.gpu ? peak_of(engine::Device::cuda, 0) : 1;
  if (!fit.fits || fit.experts > 0 || cpu <= 0 || gpu <= 0) return;
  facts.tokens_per_s = 1 / (fit.cpu_bytes / cpu + fit.gpu_bytes / gpu);
  facts.full_tokens_per_s = 1 / (fit.full_cpu_bytes / cpu + fit.full_gpu_bytes / gpu);
}

} // namespace

// Files of one model must not carry over to another.
api::ModelOptions WindowEngine::with_settings(api::ModelOptions options, const api::ModelOptions& wanted) {
  options.context = wanted.context;
  options.gpu_layers = wanted.gpu_layers;
  options.threads = wanted.threads;
  options.k_type = wanted.k_type;
  options.v_type = wanted.v_type;
  options.speculation = wanted.speculation;
  options.ranks.gpus = wanted.ranks.gpus;
  options.device = wanted.device;
  return options;
}

// Runs on the query worker; only the last request counts.
void WindowEngine::fit_model(const api::intent::FitModel& wanted) {
  if (--fits_waiting_ > 0) return;
  auto facts = std::make_shared<api::FitFacts>();
  facts->path = wanted.path;
  try {
    const api::ModelOptions options = with_settings(options_, wanted.options);
    engine::check_speculation(options);
    engine::Room room = engine::free_room();
    if (options.device == "cpu") room.without_gpus();
    std::error_code unknown;
    api::ModelRow row{wanted.path, "", wanted.path,
                      static_cast<int64_t>(std::filesystem::file_size(wanted.path, unknown))};
    const std::optional<engine::Fit> fit = add_file_facts(row, options, room);
    facts->trained_context = row.trained_context;
    if (fit) {
      facts->context = fit->config.context;
      facts->largest_context = fit->largest_context;
      facts->layers = fit->layers;
      facts->gpu_layers = fit->gpu_layers;
      if (fit->cpu) facts->cpu = device_of(*fit->cpu, room.cpu);
      if (fit->gpu) facts->gpu = device_of(*fit->gpu, fit->room.gpu);
      facts->cache_per_token = fit->cache_per_token;
      add_speed(*facts, *fit, options.threads);
    }
    if (!fit)
      facts->problem = row.problem;
    else if (!fit->fits)
      facts->problem =
          fit->largest_context > 0 ? fmt::format("a context of {} tokens fits", fit->largest_context) : row.problem;
  } catch (const Error& error) {
    facts->problem = error.what();
  }
  facts->problem = in_window_words(facts->problem);
  change([&](api::Snapshot& s) { s.fit = std::move(facts); });
}

void WindowEngine::save_preset(const std::string& name) {
  if (name.empty()) return;
  std::vector<api::Preset> presets = state_.presets;
  std::erase_if(presets, [&](const api::Preset& each) { return each.name == name; });
  presets.push_back({name, state_.system_prompt, state_.sampling, state_.max_tokens});
  store_presets(std::move(presets));
}

void WindowEngine::delete_preset(const std::string& name) {
  std::vector<api::Preset> presets = state_.presets;
  std::erase_if(presets, [&](const api::Preset& each) { return each.name == name; });
  store_presets(std::move(presets));
}

void WindowEngine::store_presets(std::vector<api::Preset> presets) {
  std::ranges::sort(presets, {}, &api::Preset::name);
  if (!setup_.preset_file.empty()) write_presets(setup_.preset_file, presets);
  change([&](api::Snapshot& s) { s.presets = std::move(presets); });
}

void WindowEngine::use_preset(const std::string& name) {
  const auto found = std::ranges::find(state_.presets, name, &api::Preset::name);
  if (found == state_.presets.end()) return;
  const api::Preset preset = *found;
  set_system(preset.system);
  set_sampling({preset.sampling, preset.max_tokens});
}

} // namespace ridge::app
