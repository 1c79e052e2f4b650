// Requests that wait for their model.
#include "server/json/api_error.h"
#include "server/models/models.h"

#include <algorithm>
#include <utility>

namespace ridge::server {

void Models::throw_stopping() { throw ApiError(503, "server_error", "the server is shutting down"); }
void Models::throw_abandoned() { throw ApiError(503, "server_error", "no client waits for it any more"); }

// Whether the model as it is loaded now can answer.
bool Models::serves(const Entry& entry, const Waiting& waiting) {
  return entry.model && !entry.outdated && (!waiting.pictures || entry.pictures);
}

// Whether no client waits for it, or none for what it lacks.
bool Models::is_abandoned(const Entry& entry) {
  return std::ranges::none_of(
      entry.queue, [&](const auto& queued) { return !serves(entry, queued.second) && queued.second.is_there(); });
}

// Whether its first request is older than those of all other waiting models.
bool Models::is_next(const Entry& entry) const {
  return std::ranges::none_of(entries_, [&](const Entry& other) {
    return &other != &entry && !other.queue.empty() && other.queue.begin()->first < entry.queue.begin()->first;
  });
}

// Models load in the order of their first requests.
void Models::wait_until_loaded(Entry& entry, const Waiting& waiting, std::unique_lock<std::mutex>& lock) {
  const auto is_loaded = [&] { return !entry.leaving && serves(entry, waiting); };
  if (is_loaded()) return;
  struct Queued {
    Queued(Models& models, Entry& entry, const Waiting& waiting)
        : models(models), entry(entry), number(++models.next_in_queue_) {
      entry.queue.emplace(number, waiting);
    }
    ~Queued() {
      entry.queue.erase(number);
      entry.due.erase(number);
      models.changed_.notify_all();
    }
    Models& models;
    Entry& entry;
    const uint64_t number;
  };
  const Queued queued(*this, entry, waiting);
  while (!is_loaded()) {
    if (stopping_) throw_stopping();
    if (!waiting.is_there()) throw_abandoned();
    if (loading_ || !is_next(entry))
      changed_.wait_for(lock, kPoll);
    else if (entry.model)
      leave_to_reload(entry, waiting.pictures || entry.pictures, lock);
    else
      load(entry, lock);
  }
}

// Waits for the model's answers and unloads it, so that it can be loaded with its encoder or anew. It accepts no
// requests meanwhile.
void Models::leave_to_reload(Entry& entry, bool pictures, std::unique_lock<std::mutex>& lock) {
  loading_ = entry.leaving = true;
  const auto stays = [&] { return stopping_ || is_abandoned(entry); };
  while (entry.model->service().users() > 0 && !stays()) changed_.wait_for(lock, kPoll);
  if (entry.leaving = !stays(); entry.leaving) {
    unload(entry, lock, entry.outdated ? "because its file has changed" : "to reload it with its encoder");
    entry.pictures = pictures;
  }
  loading_ = false;
  changed_.notify_all();
}

} // namespace ridge::server
