// Lists local models: names first, then details, fit and speed.
#include "app/models/first_models.h"
#include "app/models/model_row.h"
#include "app/window/loaded.h"

#include <algorithm>

namespace ridge::app {

void WindowEngine::list_models(const api::ModelOptions& options) {
  const auto publish = [this](const std::vector<api::ModelRow>& rows) {
    change([&](api::Snapshot& s) { s.models = std::make_shared<std::vector<api::ModelRow>>(rows); });
  };
  const std::shared_ptr<const api::Snapshot> before = snapshot();
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
    if (options.device == "cpu") room.without_gpus();
    const std::optional<engine::Fit> fit = add_file_facts(rows[i], options, room);
    if (fit && fit->fits) {
      const std::lock_guard lock(mutex_);
      const bool on_gpu = loaded_ && loaded_->device == engine::Device::cuda;
      if (on_gpu ? fit->gpu && !fit->cpu : fit->cpu && !fit->gpu)
        rows[i].tokens_per_s = state_.speed.roof_bytes_per_s / (fit->cpu_bytes + fit->gpu_bytes);
    }
    publish(rows);
  }
}

void WindowEngine::offer_first_models() {
  if (!hub::local_models(hub::places()).empty()) return;
  engine::Room room = engine::free_room();
  if (options_.device == "cpu") room.without_gpus();
  const FirstChoice choice = first_choice(room);
  auto rows = std::make_shared<std::vector<api::FirstModelRow>>();
  for (const FirstModel* model : choice.models)
    rows->push_back({std::string(model->name), std::string(model->reference), std::string(model->purpose),
                     std::string(words_for(runs_on(model->bytes, room))), model->bytes, rows->size() == choice.best});
  change([&](api::Snapshot& s) { s.first_models = std::move(rows); });
}

} // namespace ridge::app
