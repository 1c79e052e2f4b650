// The models of a server: one that is always there, or several files that are loaded when a request names them and make
// room for each other.
#pragma once

#include "server/models/model_file.h"
#include "server/responses/response_store.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ridge::server {

class Models {
 public:
  struct Settings {
    ModelSetup setup;
    double memory_bytes = 0; // that all loaded models may take together; 0: what is free
    double idle_seconds = 0; // a model that was not used for so long is unloaded; 0: never
    bool only_one = false;   // there is one file, whose model answers to any name and stays loaded
  };

  explicit Models(ModelService& only); // answers to any name; must outlive this
  // Loads nothing yet. `log` gets a line for each model that comes or goes, from any thread. Throws Error where two
  // files have one name or alias.
  Models(std::vector<ModelFile> files, Settings settings, engine::LoadSteps steps, engine::Notice log);
  ~Models(); // no request may be running

  // The model of that name, which is loaded first where it is not; of no name, the one that was used last. It stays
  // loaded while the returned object or an answer lives. Throws ApiError for an unknown name, for a file that cannot be
  // loaded, and after stop(). With `pictures`, a model that has an encoder is loaded with it: it answers to what it
  // has, is unloaded, and loaded again.
  ModelService::Use use(const std::optional<std::string>& name, bool pictures = false);
  // Calls answer(service) for that model, and again where it throws PicturesWanted.
  void with(const std::optional<std::string>& name, const std::function<void(ModelService&)>& answer);
  bool several() const { return !only_ && !settings_.only_one; }
  void log(const std::string& line) const { only_ ? only_->log(line) : log_(line); }
  int64_t parallel() const;

  struct State {
    ModelFile file;
    bool loaded = false, loading = false;
    engine::Senses senses; // what requests may have
    int64_t waiting = 0;   // requests, until it is loaded
    RequestCounts counts;  // since the server started
    // Where it is loaded:
    int64_t context = 0;
    double bytes = 0, gpu_share = 0, idle_seconds = 0;
    double unload_after = 0; // seconds without use; 0: never
  };
  std::vector<State> states() const;
  // What a model's file says, whether it is loaded or not; nothing where it cannot be read.
  FileFacts facts(const State& state) const;
  int64_t modified(const State& state) const; // seconds since 1970; of the built-in guide, when the server started
  // Unloads a model that is loaded as soon as no request uses it. Throws ApiError for an unknown name and a pinned one.
  void let_go(const std::optional<std::string>& name);
  // The latest answers of all models.
  ResponseStore& responses() const { return *responses_; }

  void stop();       // requests that wait for a model are refused
  void drain();      // waits for all requests to end; after stop()
  bool idle() const; // no request is being answered; never waits for drain()

 private:
  struct Entry {
    ModelFile file;
    std::unique_ptr<ServedModel> model; // null: not loaded
    double bytes = 0, weight_bytes = 0; // of a loaded one, and of these the weights
    bool loading = false, leaving = false;
    engine::Senses senses = {}; // what its encoder is for
    bool pictures = false;      // it is loaded with its encoder
    std::map<uint64_t, bool>
        queue;              // requests that wait until it is loaded, by their order; whether for its encoder, too
    std::set<uint64_t> due; // of these, those that it was loaded for: it answers them before it makes room
    double last_used = 0;   // core::seconds_now()
    RequestCounts past;     // of the times it was loaded before

    const ModelSetup& setup(const Settings& of_all) const { return file.setup ? *file.setup : of_all.setup; }
  };

  Entry& find(const std::optional<std::string>& name);
  void check_names() const;
  bool is_next(const Entry& entry) const;
  void wait_until_loaded(Entry& entry, bool pictures, std::unique_lock<std::mutex>& lock);
  void load(Entry& entry, std::unique_lock<std::mutex>& lock);
  Entry* first_to_leave();
  void make_room(const Entry& wanted, double bytes, std::unique_lock<std::mutex>& lock);
  void leave_for_pictures(Entry& entry, std::unique_lock<std::mutex>& lock);
  ModelSetup setup_of(const Entry& entry) const;
  void unload(Entry& entry, std::unique_lock<std::mutex>& lock, const char* why);
  double room(const Entry& wanted) const;
  double unload_after(const Entry& entry) const;
  void watch_idle(const std::stop_token& stop);

  ModelService* const only_ = nullptr;
  const Settings settings_;
  const engine::LoadSteps steps_;
  const engine::Notice log_;
  const int64_t started_;
  mutable std::mutex mutex_; // of all below
  std::condition_variable changed_;
  uint64_t next_in_queue_ = 0;
  std::vector<Entry> entries_; // as many as files, for good
  bool loading_ = false;       // or unloading; one at a time, so that it is known what is free
  bool stopping_ = false;
  mutable std::mutex facts_mutex_;
  mutable std::map<std::string, FileFacts> facts_; // of files that were read, by path, size and time
  std::shared_ptr<ResponseStore> responses_ = std::make_shared<ResponseStore>();
  std::jthread idle_watch_;
};

} // namespace ridge::server
