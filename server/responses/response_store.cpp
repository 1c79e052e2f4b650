#include "server/responses/response_store.h"

#include "core/json/parse.h"
#include "server/reply.h"

#include <algorithm>
#include <utility>

namespace ridge::server {

std::optional<Json> ResponseStore::find(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const auto at = std::ranges::find(kept_, id, &Kept::id);
  if (at == kept_.end()) return std::nullopt;
  return core::parse_json(at->messages, {.depth = 100});
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
