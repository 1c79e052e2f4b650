// POST /slots/N?action=save|restore|erase (llama.cpp).
#include "core/clock.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/routes.h"

#include <algorithm>
#include <charconv>

namespace ridge::server {
namespace {

constexpr size_t kLongestName = 200;

int32_t slot_of(const Service& service, const std::string& text) {
  int32_t slot = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  const int64_t streams = service.model().executor->config().streams;
  if (error != std::errc() || end != text.data() + text.size() || slot < 0 || slot >= streams)
    throw_invalid("id_slot", "id_slot: expected a number from 0 to {}", streams - 1);
  return slot;
}

// Accepts no path, so a file cannot leave the folder.
std::string file_name(const Fields& body) {
  body.required("filename");
  const std::string name = *body.text("filename");
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (name.empty() || name.size() > kLongestName || name[0] == '.' || !std::ranges::all_of(name, is_plain))
    throw_invalid(
        "filename",
        "filename: expected at most {} letters, digits, dots, dashes and underscores, not starting with a dot",
        kLongestName);
  return name;
}

} // namespace

void slot_action(Service& service, const HttpRequest& request, HttpResponse& response) {
  const int32_t slot = slot_of(service, request.rest);
  const std::string_view action = request.parameter("action").value_or("");
  const double start = core::seconds_now();
  const auto timings = [&](const char* name) { return Json{{name, 1e3 * (core::seconds_now() - start)}}; };
  if (action == "erase") {
    const int64_t erased = service.scheduler().erase_stream(slot);
    return reply(response, {{"id_slot", slot}, {"n_erased", erased}});
  }
  if (action != "save" && action != "restore")
    throw_invalid("action", "action: expected save, restore or erase, as in /slots/0?action=save");
  if (service.slot_folder().empty())
    throw ApiError(501, "not_supported_error",
                   "to save and restore slots, start the server with --slot-save-path FOLDER");
  const Json body = parse_body(request.body);
  const std::string name = file_name(Fields(body, ""));
  if (action == "save") {
    const auto saved =
        service.scheduler().save_stream(slot, service.slot_folder() + "/" + name, service.slot_model());
    return reply(response, {{"id_slot", slot},
                            {"filename", name},
                            {"n_saved", saved.tokens},
                            {"n_written", saved.bytes},
                            {"timings", timings("save_ms")}});
  }
  const auto restored =
      service.scheduler().restore_stream(slot, service.slot_folder() + "/" + name, service.slot_model());
  reply(response, {{"id_slot", slot},
                   {"filename", name},
                   {"n_restored", restored.tokens},
                   {"n_read", restored.bytes},
                   {"timings", timings("restore_ms")}});
}

} // namespace ridge::server
