#include "server/models/response_store.h"

#include "core/json/parse.h"
#include "server/json/reply.h"

#include <algorithm>
#include <utility>

namespace ridge::server {

namespace {

constexpr size_t kDeepest = 128; // arguments may nest as deep as a body, and are nested themselves

Json parse(const std::string& text) { return core::parse_json(text, {.depth = kDeepest, .exact_numbers = true}); }

} // namespace

size_t ResponseStore::Kept::bytes() const {
  size_t sum = messages.size() + response.size() + input.size();
  for (const Item& item : items) sum += item.id.size() + item.text.size();
  return sum;
}

const ResponseStore::Kept* ResponseStore::kept(const std::string& id) const {
  const auto at = std::ranges::find(kept_, id, &Kept::id);
  return at == kept_.end() ? nullptr : &*at;
}

std::optional<Json> ResponseStore::find(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const Kept* const found = kept(id);
  return found ? std::optional(parse(found->messages)) : std::nullopt;
}

std::optional<std::string> ResponseStore::response(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const Kept* const found = kept(id);
  return found ? std::optional(found->response) : std::nullopt;
}

std::optional<Json> ResponseStore::input(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const Kept* const found = kept(id);
  return found ? std::optional(parse(found->input)) : std::nullopt;
}

std::optional<Json> ResponseStore::find_item(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  for (const Kept& one : kept_) {
    const auto at = std::ranges::find(one.items, id, &Item::id);
    if (at != one.items.end()) return parse(at->text);
  }
  return std::nullopt;
}

bool ResponseStore::erase(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto at = std::ranges::find(kept_, id, &Kept::id);
  if (at == kept_.end()) return false;
  bytes_ -= at->bytes();
  kept_.erase(at);
  return true;
}

void ResponseStore::add(std::string id, const Json& messages, const Json& response, const Json& input) {
  Kept one = {std::move(id), Client::to_text(messages), Client::to_text(response), Client::to_text(input), {}};
  if (response.contains("output"))
    for (const Json& item : response["output"]) one.items.push_back({item["id"], Client::to_text(item)});
  const std::scoped_lock lock(mutex_);
  bytes_ += one.bytes();
  kept_.push_front(std::move(one));
  while (kept_.size() > kMax || bytes_ > kMaxBytes) {
    bytes_ -= kept_.back().bytes();
    kept_.pop_back();
  }
}

} // namespace ridge::server
