#include "server/models/models.h"

#include "core/clock.h"
#include "core/error.h"
#include "engine/loading/machine.h"
#include "kernels/cuda/executor/executor.h"
#include "server/json/errors.h"
#include "server/models/service.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <utility>

namespace ridge::server {
namespace {

namespace fs = std::filesystem;
using core::seconds_now;

RequestCounts sum(RequestCounts a, const RequestCounts& b) {
  a.failed += b.failed;
  a.ignored_fields += b.ignored_fields;
  a.schema_misses += b.schema_misses;
  a.ended += b.ended;
  a.preemptions += b.preemptions;
  a.prompt_tokens += b.prompt_tokens;
  a.cached_tokens += b.cached_tokens;
  a.stored_tokens += b.stored_tokens;
  a.disk_tokens += b.disk_tokens;
  a.stored_bytes = b.stored_bytes;
  a.generated_tokens += b.generated_tokens;
  a.guesses_made += b.guesses_made;
  a.guesses_right += b.guesses_right;
  a.steps += b.steps;
  a.seconds += b.seconds;
  a.bytes += b.bytes;
  a.running = b.running;
  a.waiting = b.waiting;
  return a;
}

double bytes_of(const engine::LoadedModel& model) { // with caches and scratch
  return bytes_of_weights(model.program) + model.executor->memory_bytes();
}

} // namespace

Models::Models(ModelService& only) : only_(&only), started_(std::time(nullptr)) {
  if (const auto* texts = dynamic_cast<const Service*>(&only)) responses_ = texts->response_store();
}

Models::Models(std::vector<ModelFile> files, Settings settings, engine::LoadSteps steps, engine::Notice log)
    : settings_(std::move(settings)), steps_(std::move(steps)), log_(std::move(log)), started_(std::time(nullptr)) {
  check_names(files);
  for (ModelFile& file : files) {
    Entry& entry = entries_.emplace_back();
    if (!file.mmproj.empty()) entry.senses = engine::senses_of(file.mmproj);
    entry.file = std::move(file);
  }
  idle_watch_ = std::jthread([this](const std::stop_token& stop) { watch_idle(stop); });
}

Models::~Models() {
  stop();
  if (idle_watch_.joinable()) {
    idle_watch_.request_stop();
    idle_watch_.join();
  }
}

int64_t Models::parallel() const {
  if (only_) return only_->model().executor->config().streams;
  const std::scoped_lock lock(mutex_);
  int64_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.setup(settings_).parallel);
  return most;
}

Models::Entry& Models::find(const std::optional<std::string>& name) {
  if (settings_.only_one || !name || name->empty())
    return *std::ranges::max_element(entries_, {},
                                     [](const Entry& entry) { return std::pair(!entry.gone, entry.last_used); });
  std::string_view wanted = *name;
  const auto is_wanted = [&](const Entry& entry) {
    return !entry.gone &&
           (entry.file.name == wanted || std::ranges::find(entry.file.aliases, wanted) != entry.file.aliases.end());
  };
  auto at = std::ranges::find_if(entries_, is_wanted);
  constexpr std::string_view kLatest = ":latest"; // Ollama's clients append it
  if (at == entries_.end() && wanted.ends_with(kLatest)) {
    wanted.remove_suffix(kLatest.size());
    at = std::ranges::find_if(entries_, is_wanted);
  }
  if (at == entries_.end()) throw no_such_model(*name);
  return *at;
}

ModelService::Use Models::use(const std::optional<std::string>& name, bool pictures, const ClientWaits& client) {
  if (only_) return ModelService::Use(*only_);
  std::unique_lock lock(mutex_);
  Entry& entry = find(name);
  wait_until_loaded(entry, {pictures, client}, lock);
  entry.last_used = seconds_now();
  return ModelService::Use(entry.model->service());
}

void Models::with(const std::optional<std::string>& name, const ClientWaits& client,
                  const std::function<void(ModelService&)>& answer) {
  try {
    const ModelService::Use use = this->use(name, false, client);
    return answer(use.service());
  } catch (const PicturesWanted&) {
  }
  const ModelService::Use use = this->use(name, true, client);
  answer(use.service());
}

ModelSetup Models::setup_of(const Entry& entry) const {
  ModelSetup setup = entry.setup(settings_);
  if (!entry.pictures) return setup;
  setup.model.mmproj = entry.file.mmproj;
  return setup;
}

// Releases the lock while it opens and starts the model.
void Models::load(Entry& entry, std::unique_lock<std::mutex>& lock) {
  loading_ = entry.loading = true;
  entry.stamp = stamp_of(entry.file);
  const double start = seconds_now();
  std::string problem;
  std::unique_ptr<ServedModel> model;
  const ModelSetup setup = setup_of(entry);
  const std::string path = entry.file.path, name = entry.file.name; // reload() may change the entry
  const engine::Senses senses = entry.senses;
  lock.unlock();
  try {
    engine::LoadedModel opened = open_served(path, setup.model, steps_);
    const double bytes = ServedModel::bytes_needed(opened, setup);
    lock.lock();
    make_room(entry, bytes, lock);
    lock.unlock();
    const engine::Notice log = [this, name](const std::string& line) {
      log_(several() ? fmt::format("{}: {}", name, line) : line);
    };
    model = std::make_unique<ServedModel>(std::move(opened), setup, name, steps_, log);
    model->service().offer(senses);
  } catch (const ApiError& error) {
    problem = error.what();
  } catch (const std::bad_alloc&) {
    problem = "not enough memory for it";
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!lock.owns_lock()) lock.lock();
  loading_ = entry.loading = false;
  changed_.notify_all();
  if (!model) {
    entry.pictures = false; // it may load without the encoder
    log_(fmt::format("{} cannot be loaded: {}", entry.file.name, problem));
    if (stopping_) throw_stopping();
    throw ApiError(500, "server_error", fmt::format("the model {} cannot be loaded: {}", entry.file.name, problem),
                   "model");
  }
  if (auto* texts = dynamic_cast<Service*>(&model->service())) texts->share_responses(responses_);
  entry.model = std::move(model);
  entry.weight_bytes = bytes_of_weights(entry.model->service().model().program);
  entry.bytes = bytes_of(entry.model->service().model());
  entry.last_used = seconds_now();
  for (const auto& [number, waiting] : entry.queue)
    if (!waiting.pictures || entry.pictures) entry.due.insert(number);
  log_(fmt::format("{} loaded on {}; {:.2f} GiB, {:.1f} s", entry.file.name,
                   entry.model->service().model().executor->description(), entry.bytes / (1 << 30),
                   seconds_now() - start));
}

double Models::room(const Entry& wanted) const {
  double taken = 0, mapped = 0; // mapped weights count as available memory, but would be read again
  for (const Entry& entry : entries_)
    if (entry.model) {
      taken += entry.bytes;
      mapped += entry.weight_bytes * (1 - entry.model->service().model().gpu_share);
    }
  if (settings_.memory_bytes > 0) return settings_.memory_bytes - taken;
  const api::ModelOptions& options = wanted.setup(settings_).model;
  if (options.device != "cpu" && options.gpu_layers != 0)
    if (const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info(); gpu.usable) return gpu.free_bytes;
  return engine::available_memory() - mapped;
}

// Prefers unused models, then the least recently used. Null if all are pinned.
Models::Entry* Models::first_to_leave() {
  Entry* first = nullptr;
  const auto order = [](const Entry& entry) {
    return std::pair(!entry.due.empty() || entry.model->service().users() > 0, entry.last_used);
  };
  for (Entry& entry : entries_)
    if (entry.model && !entry.file.pinned && (!first || order(entry) < order(*first))) first = &entry;
  return first;
}

// Unloads models until there is room. A used model accepts no new requests and goes after its answers, including those
// it was loaded for. Without candidates the new model gets all there is.
void Models::make_room(const Entry& wanted, double bytes, std::unique_lock<std::mutex>& lock) {
  while (room(wanted) < bytes && !is_abandoned(wanted)) {
    if (stopping_) throw_stopping();
    Entry* const first = first_to_leave();
    if (!first) break;
    if (first->due.empty() && first->model->service().users() == 0) {
      unload(*first, lock, "to make room");
    } else {
      first->leaving = first->due.empty();
      changed_.wait_for(lock, kPoll);
    }
  }
  for (Entry& entry : entries_) entry.leaving = false;
  changed_.notify_all();
  if (is_abandoned(wanted)) throw_abandoned();
  const bool beside_pinned =
      std::ranges::any_of(entries_, [](const Entry& entry) { return entry.model && entry.file.pinned; });
  if ((settings_.memory_bytes <= 0 && !beside_pinned) || room(wanted) >= bytes) return;
  throw_error("it needs {:.2f} GiB, and {} allows {:.2f}{}", bytes / (1 << 30),
              settings_.memory_bytes > 0 ? "--memory" : "free memory", std::max(room(wanted), 0.0) / (1 << 30),
              beside_pinned ? " in addition to the pinned models" : "");
}

// The model must be unused. Nothing starts to use it under the lock.
void Models::unload(Entry& entry, std::unique_lock<std::mutex>& lock, const char* why) {
  entry.past = sum(entry.past, entry.model->service().request_counts());
  std::unique_ptr<ServedModel> model = std::move(entry.model);
  entry.leaving = entry.pictures = entry.outdated = false;
  const std::string name = entry.file.name;
  lock.unlock();
  model.reset();
  log_(fmt::format("{} unloaded {}", name, why));
  lock.lock();
}

double Models::unload_after(const Entry& entry) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (entry.gone || entry.outdated) return 0;
  if (settings_.only_one || entry.file.pinned) return kNever;
  return entry.model->service().kept_for(settings_.idle_seconds > 0 ? settings_.idle_seconds : kNever);
}

void Models::unload_when_unused(const std::optional<std::string>& name) {
  if (!several()) return;
  const std::scoped_lock lock(mutex_);
  const Entry& entry = find(name);
  if (entry.file.pinned) throw_invalid("model", "the model {} is pinned and stays loaded", entry.file.name);
  if (entry.model) entry.model->service().keep_for(0);
}

void Models::watch_idle(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return stop.stop_requested(); });
    forget_gone();
    const double now = seconds_now();
    for (Entry& entry : entries_) {
      if (!entry.model || loading_ || !entry.due.empty()) continue;
      if (entry.model->service().users() > 0) {
        entry.last_used = now;
      } else if (now - entry.last_used > unload_after(entry)) {
        loading_ = true; // requests wait until the memory is free
        unload(entry, lock,
               entry.gone       ? "because its file is gone"
               : entry.outdated ? "because its file has changed"
                                : "because it was idle");
        loading_ = false;
        changed_.notify_all();
      }
    }
  }
}

std::vector<Models::State> Models::states() const {
  const auto describe = [](State& state, const ModelService& service) {
    state.loaded = true;
    state.context = service.context();
    state.gpu_share = service.model().gpu_share;
    state.bytes = bytes_of(service.model());
  };
  std::vector<State> states;
  if (only_) {
    State& state = states.emplace_back();
    state.file = {only_->name(), only_->model().file.path()};
    state.senses = only_->senses();
    state.counts = only_->request_counts();
    describe(state, *only_);
    return states;
  }
  const std::scoped_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.gone) continue;
    State& state = states.emplace_back();
    state.file = entry.file;
    state.senses = entry.senses;
    state.loading = entry.loading;
    state.waiting = std::ssize(entry.queue);
    state.counts = entry.past;
    if (!entry.model) continue;
    state.counts = sum(entry.past, entry.model->service().request_counts());
    describe(state, entry.model->service());
    state.idle_seconds = entry.model->service().users() > 0 ? 0 : seconds_now() - entry.last_used;
    if (const double after = unload_after(entry); std::isfinite(after)) state.unload_after = after;
  }
  return states;
}

void Models::stop() {
  const std::scoped_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool Models::idle() const {
  if (only_) return only_->users() == 0;
  const std::scoped_lock lock(mutex_);
  return !loading_ && std::ranges::none_of(entries_, [](const Entry& entry) {
    return entry.model && entry.model->service().users() > 0;
  });
}

void Models::drain() {
  if (only_) return only_->drain();
  std::vector<ModelService::Use> loaded; // keeps them loaded
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !loading_; });
    for (Entry& entry : entries_)
      if (entry.model) loaded.emplace_back(entry.model->service());
  }
  // Without the lock, since writing prompts may take long and idle() must not wait.
  for (const ModelService::Use& use : loaded) use.service().drain();
}

} // namespace ridge::server
