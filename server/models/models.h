// A server's models: a single one, or files loaded on demand that make room for each other.
#pragma once

#include "server/models/model_file.h"
#include "server/models/response_store.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ridge::server {

class Models {
 public:
  struct Settings {
    ModelSetup setup;
    double memory_bytes = 0; // for all loaded models; 0: all free memory
    double idle_seconds = 0; // without use, before unloading; 0: never
    bool only_one = false;   // it answers to any name and stays loaded
    // Lists the files again, for reload(). Null: they stay the same. May throw Error.
    std::function<std::vector<ModelFile>()> list = nullptr;
  };

  explicit Models(ModelService& only); // must outlive this
  // Loads nothing yet. `log` gets a line per load and unload, from any thread. Throws Error for duplicate names.
  Models(std::vector<ModelFile> files, Settings settings, engine::LoadSteps steps, engine::Notice log);
  ~Models(); // no request may be running

  using ClientWaits = std::function<bool()>; // whether it still waits; null: yes
  // Loads the named (else the last used) model if necessary. It stays loaded while the result or an answer lives.
  // `pictures`: with its encoder, if it has one. Throws ApiError for an unknown name, if loading fails, once the client
  // has left, and after stop().
  ModelService::Use use(const std::optional<std::string>& name, bool pictures = false,
                        const ClientWaits& client = nullptr);
  // Calls answer() again, with the encoder, after PicturesWanted.
  void with(const std::optional<std::string>& name, const ClientWaits& client,
            const std::function<void(ModelService&)>& answer);
  bool several() const { return !only_ && !settings_.only_one; }
  void log(const std::string& line) const { only_ ? only_->log(line) : log_(line); }
  int64_t parallel() const;

  struct State {
    ModelFile file;
    bool loaded = false, loading = false;
    engine::Senses senses;
    int64_t waiting = 0;
    RequestCounts counts;
    // If loaded:
    int64_t context = 0;
    double bytes = 0, gpu_share = 0, idle_seconds = 0;
    double unload_after = 0; // seconds without use; 0: never
  };
  std::vector<State> states() const;
  // Empty if the file is unreadable.
  FileFacts facts(const State& state) const;
  int64_t modified(const State& state) const; // seconds since 1970; for the guide, the server's start
  // Lists the files again. Models that are gone are unloaded once they are unused, changed ones reloaded at their next
  // request. Throws Error if the list cannot be read; then it stays as it was.
  void reload();
  // Unloads a model once it is unused. Throws ApiError for unknown and pinned ones.
  void unload_when_unused(const std::optional<std::string>& name);
  ResponseStore& responses() const { return *responses_; }

  void stop();
  void drain();      // waits for all requests; after stop()
  bool idle() const; // true without requests; does not wait for drain()

 private:
  static constexpr std::chrono::milliseconds kPoll{50}; // nothing signals the end of answers, or clients that leave

  struct Waiting {
    bool pictures;
    ClientWaits client;
    bool is_there() const { return !client || client(); }
  };

  using FileStamp = std::pair<uintmax_t, int64_t>; // bytes, time of change

  struct Entry {
    ModelFile file;
    FileStamp stamp = {};  // when it was loaded
    bool gone = false;     // not listed any more
    bool outdated = false; // loaded, but the file has changed
    std::unique_ptr<ServedModel> model;
    double bytes = 0, weight_bytes = 0; // weight_bytes: part of bytes
    bool loading = false, leaving = false;
    engine::Senses senses = {};
    bool pictures = false;
    std::map<uint64_t, Waiting> queue; // in order
    std::set<uint64_t> due;            // requests it was loaded for; it answers them before it makes room
    double last_used = 0;
    RequestCounts past;

    const ModelSetup& setup(const Settings& of_all) const { return file.setup ? *file.setup : of_all.setup; }
  };

  Entry& find(const std::optional<std::string>& name);
  static FileStamp stamp_of(const ModelFile& file);
  static void check_names(const std::vector<ModelFile>& files);
  bool is_next(const Entry& entry) const;
  static bool serves(const Entry& entry, const Waiting& waiting);
  static bool is_abandoned(const Entry& entry);
  [[noreturn]] static void throw_stopping();
  [[noreturn]] static void throw_abandoned();
  void wait_until_loaded(Entry& entry, const Waiting& waiting, std::unique_lock<std::mutex>& lock);
  void load(Entry& entry, std::unique_lock<std::mutex>& lock);
  Entry* first_to_leave();
  void make_room(const Entry& wanted, double bytes, std::unique_lock<std::mutex>& lock);
  void leave_to_reload(Entry& entry, bool pictures, std::unique_lock<std::mutex>& lock);
  ModelSetup setup_of(const Entry& entry) const;
  void unload(Entry& entry, std::unique_lock<std::mutex>& lock, const char* why);
  double room(const Entry& wanted) const;
  double unload_after(const Entry& entry) const;
  void watch_idle(const std::stop_token& stop);
  void forget_gone();

  ModelService* const only_ = nullptr;
  const Settings settings_;
  const engine::LoadSteps steps_;
  const engine::Notice log_;
  const int64_t started_;
  mutable std::mutex mutex_; // guards the members below
  std::condition_variable changed_;
  uint64_t next_in_queue_ = 0;
  std::list<Entry> entries_; // reload() adds some, forget_gone() removes them
  bool loading_ = false;     // or unloading; one at a time, so that free memory is known
  bool stopping_ = false;
  mutable std::mutex facts_mutex_;
  mutable std::map<std::string, FileFacts> facts_; // by path, size and time
  std::shared_ptr<ResponseStore> responses_ = std::make_shared<ResponseStore>();
  std::jthread idle_watch_;
};

} // namespace ridge::server
