#include "server/responses/response_store.h"

#include "server/reply.h"
#include "text/json/read_json.h"

#include <algorithm>
#include <utility>

namespace ridge::server {

namespace {

constexpr size_t kDeepest = 128; // a call's arguments may nest as deep as a body, and lie deeper

} // namespace

std::optional<Json> ResponseStore::find(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const auto at = std::ranges::find(kept_, id, &Kept::id);
  if (at == kept_.end()) return std::nullopt;
  return text::read_json(at->messages, {.levels = kDeepest});
}

void ResponseStore::add(std::string id, const Json& messages) {
  Kept kept = {std::move(id), Client::to_text(messages)};
  const std::scoped_lock lock(mutex_);
  bytes_ += kept.messages.size();
  kept_.push_front(std::move(kept));
  while (kept_.size() > kMost || bytes_ > kMostBytes) {
    bytes_ -= kept_.back().messages.size();
    kept_.pop_back();
  }
}

} // namespace ridge::server
