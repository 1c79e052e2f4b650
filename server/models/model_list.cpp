// The list of models and facts about their files.
#include "core/error.h"
#include "server/models/models.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace ridge::server {

namespace fs = std::filesystem;

Models::FileStamp Models::stamp_of(const ModelFile& file) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file.path, error);
  return {error ? 0 : bytes, fs::last_write_time(file.path, error).time_since_epoch().count()};
}

void Models::check_names(const std::vector<ModelFile>& files) {
  std::map<std::string, const ModelFile*> names;
  const auto add = [&](const std::string& name, const ModelFile& file) {
    const auto [at, added] = names.emplace(name, &file);
    if (!added) throw_error("{} and {} would have the same name, {}: rename one", at->second->path, file.path, name);
  };
  for (const ModelFile& file : files) add(file.name, file);
  for (const ModelFile& file : files)
    for (const std::string& alias : file.aliases) add(alias, file);
}

void Models::reload() {
  if (!settings_.list) return;
  std::vector<ModelFile> files = settings_.list();
  check_names(files);
  std::vector<engine::Senses> senses;
  for (const ModelFile& file : files)
    senses.push_back(file.mmproj.empty() ? engine::Senses() : engine::senses_of(file.mmproj));
  const std::scoped_lock lock(mutex_);
  for (Entry& entry : entries_) entry.gone = true;
  auto place = entries_.begin();
  for (size_t i = 0; i < files.size(); ++i) {
    auto at = std::ranges::find(entries_, files[i].name, [](const Entry& entry) { return entry.file.name; });
    if (at == entries_.end())
      at = entries_.emplace(place);
    else if (at == place)
      ++place;
    else
      entries_.splice(place, entries_, at); // requests' references to it stay valid
    at->gone = false;
    at->outdated = at->outdated || ((at->model || at->loading) && stamp_of(files[i]) != at->stamp);
    at->senses = senses[i];
    at->file = std::move(files[i]);
  }
}

// Nothing may refer to them: no request waits, none is being loaded or unloaded.
void Models::forget_gone() {
  if (loading_) return;
  std::erase_if(entries_, [](const Entry& entry) { return entry.gone && !entry.model && entry.queue.empty(); });
}

FileFacts Models::facts(const State& state) const {
  std::error_code error;
  const auto size = fs::file_size(state.file.path, error);
  const std::string key = fmt::format("{} {} {}", state.file.path, error ? 0 : size, modified(state));
  const std::scoped_lock lock(facts_mutex_);
  const auto known = facts_.find(key);
  if (known != facts_.end()) return known->second;
  try {
    if (only_) return facts_[key] = facts_of(only_->model().file, only_->model().program, state.senses);
    const gguf::File file = gguf::File::open(state.file.path);
    return facts_[key] = facts_of(file, models::build_program(file), state.senses);
  } catch (const Error&) {
    return {};
  }
}

int64_t Models::modified(const State& state) const {
  std::error_code error;
  const auto time = fs::last_write_time(state.file.path, error);
  if (error) return started_;
  return std::chrono::duration_cast<std::chrono::seconds>(fs::file_time_type::clock::to_sys(time).time_since_epoch())
      .count();
}

} // namespace ridge::server
