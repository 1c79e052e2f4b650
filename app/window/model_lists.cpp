#include "app/window/model_lists.h"

#include "app/models/first_models.h"
#include "app/models/model_row.h"
#include "app/window_words.h"
#include "engine/loading/fit.h"
#include "engine/speculation/speculation.h"
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
api::ModelOptions with_settings(api::ModelOptions options, const api::ModelOptions& wanted) {
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

void ModelLists::ask_list() {
  lists_.push([this] { board_.guarded([&] { list(); }); });
}

void ModelLists::ask_first_models() {
  lists_.push([this] { board_.guarded([&] { offer_first_models(); }); });
}

void ModelLists::ask_fit(const api::intent::FitModel& wanted) {
  ++fits_waiting_;
  fits_.push([this, wanted] { fit(wanted); });
}

void ModelLists::stop() {
  closing_ = true;
  lists_.stop();
  fits_.stop();
}

// Names first, then details, fit and speed.
void ModelLists::list() {
  const auto publish = [this](const std::vector<api::ModelRow>& rows) {
    board_.change([&](api::Snapshot& s) { s.models = std::make_shared<std::vector<api::ModelRow>>(rows); });
  };
  const std::shared_ptr<const api::Snapshot> before = board_.snapshot();
  std::vector<api::ModelRow> rows;
  std::vector<size_t> unknown;
  for (const hub::LocalModel& model : hub::local_models(hub::places())) {
    api::ModelRow row = row_of(model);
    const api::ModelRow* known = nullptr;
    if (before->models)
      for (const api::ModelRow& old : *before->models)
        if (old.path == row.path && old.bytes == row.bytes && !old.architecture.empty() &&
            (old.tokens_per_s > 0 || before->speed.roof_bytes_per_s <= 0))
          known = &old;
    if (!known) unknown.push_back(rows.size());
    rows.push_back(known ? *known : std::move(row));
  }
  publish(rows);

  for (const size_t i : unknown) {
    if (closing_) return;
    engine::Room room = engine::free_room();
    if (options_.device == "cpu") room.without_gpus();
    const std::optional<engine::Fit> fit = add_file_facts(rows[i], options_, room);
    if (fit && fit->fits)
      board_.look([&](const api::Snapshot& s) {
        if (runs_on_gpu_() ? fit->gpu && !fit->cpu : fit->cpu && !fit->gpu)
          rows[i].tokens_per_s = s.speed.roof_bytes_per_s / (fit->cpu_bytes + fit->gpu_bytes);
      });
    publish(rows);
  }
}

void ModelLists::offer_first_models() {
  if (!hub::local_models(hub::places()).empty()) return;
  engine::Room room = engine::free_room();
  if (options_.device == "cpu") room.without_gpus();
  const FirstChoice choice = first_choice(room);
  auto rows = std::make_shared<std::vector<api::FirstModelRow>>();
  for (const FirstModel* model : choice.models)
    rows->push_back({std::string(model->name), std::string(model->reference), std::string(model->purpose),
                     std::string(words_for(runs_on(model->bytes, room))), model->bytes, rows->size() == choice.best});
  board_.change([&](api::Snapshot& s) { s.first_models = std::move(rows); });
}

// Only the last request counts.
void ModelLists::fit(const api::intent::FitModel& wanted) {
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
  } catch (const std::exception& error) {
    facts->problem = error.what();
  }
  facts->problem = in_window_words(facts->problem);
  board_.change([&](api::Snapshot& s) { s.fit = std::move(facts); });
}

} // namespace ridge::app
