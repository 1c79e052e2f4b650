// GET and DELETE of /v1/responses/ID, and GET of its input_items.
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/routes.h"

#include <algorithm>
#include <charconv>

namespace ridge::server {
namespace {

constexpr std::string_view kInputItems = "/input_items";

[[noreturn]] void throw_unknown(const std::string& id) {
  throw ApiError(404, "invalid_request_error",
                 fmt::format("Response with id '{}' not found: only the latest {} are kept", id, ResponseStore::kMax),
                 "id");
}

int64_t number_of(const HttpRequest& request, const char* name, int64_t otherwise, int64_t most) {
  const auto given = request.parameter(name);
  if (!given) return otherwise;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), number);
  if (error != std::errc() || end != given->data() + given->size() || number < 1 || number > most)
    throw_invalid(name, "{}: expected a whole number from 1 to {}", name, most);
  return number;
}

void input_items(const Models& models, const std::string& id, const HttpRequest& request, HttpResponse& response) {
  std::optional<Json> items = models.responses().input(id);
  if (!items) throw_unknown(id);
  const std::string_view order = request.parameter("order").value_or("desc");
  if (order != "asc" && order != "desc") throw_invalid("order", "order: expected asc or desc");
  if (order == "desc") std::ranges::reverse(*items);
  auto first = items->begin();
  if (const auto after = request.parameter("after")) {
    first = std::ranges::find_if(*items, [&](const Json& item) { return item["id"] == std::string(*after); });
    if (first == items->end()) throw_invalid("after", "after: unknown item {}", *after);
    ++first;
  }
  const int64_t count = std::min<int64_t>(number_of(request, "limit", 20, 100), items->end() - first);
  const Json data(std::vector<Json>(first, first + count));
  reply(response, {{"object", "list"},
                   {"data", data},
                   {"first_id", data.empty() ? Json() : data.front()["id"]},
                   {"last_id", data.empty() ? Json() : data.back()["id"]},
                   {"has_more", first + count != items->end()}});
}

} // namespace

void openai_kept_response(const Models& models, const HttpRequest& request, HttpResponse& response) {
  std::string id = request.rest;
  if (id.ends_with(kInputItems)) {
    id.resize(id.size() - kInputItems.size());
    return input_items(models, id, request, response);
  }
  if (request.parameter("stream").value_or("false") != "false")
    throw_invalid("stream", "stream is not supported: a stored response is returned as a whole");
  const auto kept = models.responses().response(id);
  if (!kept) throw_unknown(id);
  response.content = *kept + "\n";
}

void openai_delete_response(const Models& models, const HttpRequest& request, HttpResponse& response) {
  if (!models.responses().erase(request.rest)) throw_unknown(request.rest);
  reply(response, {{"id", request.rest}, {"object", "response"}, {"deleted", true}});
}

} // namespace ridge::server
