#include "server/models/request_list.h"

#include "core/clock.h"

#include <algorithm>
#include <utility>

namespace ridge::server {

std::vector<RequestList::Entry> RequestList::all() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry> all(entries_.begin(), entries_.end());
  for (Entry& entry : all)
    if (!entry.ended) entry.seconds = core::seconds_now() - entry.began;
  return all;
}

RequestList::Entry& RequestList::find(uint64_t number) { return *std::ranges::find(entries_, number, &Entry::number); }

void RequestList::forget_oldest() {
  const auto ended = static_cast<size_t>(std::ranges::count(entries_, true, &Entry::ended));
  if (ended <= kMaxEnded) return;
  const auto oldest = std::ranges::find(entries_.rbegin(), entries_.rend(), true, &Entry::ended);
  entries_.erase(std::next(oldest).base());
}

RequestList::Running::Running(RequestList& list, std::string route, int64_t prompt_tokens) : list_(list) {
  const std::scoped_lock lock(list_.mutex_);
  number_ = list_.next_++;
  list_.entries_.push_front(
      {.number = number_, .route = std::move(route), .prompt_tokens = prompt_tokens, .began = core::seconds_now()});
}

void RequestList::Running::count_token() {
  const std::scoped_lock lock(list_.mutex_);
  ++list_.find(number_).answer_tokens;
}

void RequestList::Running::end(const std::string& problem, int64_t cached_tokens) {
  if (number_ == 0) return;
  const std::scoped_lock lock(list_.mutex_);
  Entry& entry = list_.find(number_);
  entry.ended = true;
  entry.seconds = core::seconds_now() - entry.began;
  entry.cached_tokens = cached_tokens;
  entry.problem = problem;
  number_ = 0;
  list_.forget_oldest();
}

} // namespace ridge::server
