#include "server/responses/response_messages.h"

#include "server/json/api_error.h"
#include "server/responses/response_items.h"

#include <utility>
#include <vector>

namespace ridge::server {

Json response_messages(const Service& service, const Fields& body, RequestPictures& pictures, bool input_is_optional) {
  Json messages = Json::array();
  const auto previous = body.text("previous_response_id");
  if (previous) {
    auto known = service.responses().find(*previous);
    if (!known)
      throw ApiError(404, "invalid_request_error",
                     fmt::format("previous_response_id: no response {} is stored; only the latest {} are kept",
                                 *previous, ResponseStore::kMax),
                     "previous_response_id", "previous_response_not_found");
    messages = std::move(*known);
  }
  if (input_is_optional && previous && !body.find("input")) return messages;
  add_input(messages, pictures.put(body.required("input"), "input"), service.responses());
  return messages;
}

Generation without_oldest(const Json& messages, int64_t room, const std::function<Generation(const Json&)>& make) {
  size_t first = 0;
  while (first < messages.size() && messages[first]["role"] == "system") ++first;
  std::vector<size_t> cuts; // possible cuts, before these messages
  for (size_t i = first + 1; i < messages.size(); ++i)
    if (messages[i]["role"] != "tool") cuts.push_back(i);
  const auto cut = [&](size_t at) {
    Json kept(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(first));
    if (kept.is_null()) kept = Json::array();
    kept.insert(kept.end(), messages.begin() + static_cast<std::ptrdiff_t>(at), messages.end());
    return make(kept);
  };
  Generation generation = make(messages);
  if (std::ssize(generation.prompt) <= room) return generation;
  size_t low = 0, high = cuts.size(); // the first cut that fits
  while (low < high) {
    const size_t middle = (low + high) / 2;
    Generation shorter = cut(cuts[middle]);
    const bool fits = std::ssize(shorter.prompt) <= room;
    (fits ? high : low) = fits ? middle : middle + 1;
    if (fits || middle + 1 == cuts.size()) generation = std::move(shorter);
  }
  return generation;
}

} // namespace ridge::server
