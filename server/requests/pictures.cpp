#include "server/requests/pictures.h"

#include "core/error.h"
#include "core/strings/base64.h"
#include "media/picture.h"
#include "server/api_error.h"
#include "server/service.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace ridge::server {
namespace {

constexpr size_t kMostPictures = 64;           // of a request
constexpr int64_t kMostPixels = 1'000'000'000; // of them together, which take some ten seconds

const Json* member(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

std::string text_of(const Json* value) { return value && value->is_string() ? value->get<std::string>() : ""; }

} // namespace

RequestPictures::RequestPictures(const Service& service)
    : taken_(service.takes_pictures()), shelf_(service.model().pictures) {}

Json RequestPictures::mark_of_base64(std::string_view base64, const std::string& path) {
  const std::optional<std::string> bytes = core::from_base64(base64);
  if (!bytes) throw_invalid(path, "{}: expected base64", path);
  if (!shelf_) throw PicturesWanted();
  if (held_.size() == kMostPictures) throw_invalid(path, "{}: a request has at most {} pictures", path, kMostPictures);
  try {
    held_.push_back(shelf_->add(std::as_bytes(std::span(*bytes)), path));
  } catch (const media::PictureError& error) {
    throw_invalid(path, "{}", error.what());
  }
  pixels_ += held_.back()->width * held_.back()->height;
  if (pixels_ > kMostPixels) throw_invalid(path, "{}: a request's pictures have at most {} pixels", path, kMostPixels);
  return {{"type", "text"}, {"text", held_.back()->mark}};
}

Json RequestPictures::mark(const std::string& url, const std::string& path) {
  constexpr std::string_view kBase64 = ";base64,";
  const size_t data = url.find(kBase64);
  if (!url.starts_with("data:") || data == std::string::npos)
    throw_invalid(path, "{}: this server fetches no pictures: send data:image/png;base64,…", path);
  return mark_of_base64(std::string_view(url).substr(data + kBase64.size()), path);
}

// A content, or what a tool gave: its parts, and theirs.
void RequestPictures::put_into(Json& content, const std::string& path) {
  if (!content.is_array()) return;
  for (size_t i = 0; i < content.size(); ++i) {
    Json& part = content[i];
    if (!part.is_object()) continue;
    const std::string place = fmt::format("{}[{}]", path, i), type = text_of(member(part, "type"));
    if (type == "image_url" || type == "input_image") {
      const Json* given = member(part, "image_url");
      const bool nested = given && given->is_object();
      const std::string url = text_of(nested ? member(*given, "url") : given);
      part = mark(url, place + (nested ? ".image_url.url" : ".image_url"));
    } else if (type == "image") {
      const Json* source = member(part, "source");
      const bool inside = source && source->is_object();
      if (inside && text_of(member(*source, "type")) == "base64")
        part = mark_of_base64(text_of(member(*source, "data")), place + ".source.data");
      else
        part = mark(inside ? text_of(member(*source, "url")) : "", place + ".source");
    } else if (part.contains("content")) {
      put_into(part["content"], place + ".content");
    }
  }
}

Json RequestPictures::put(Json messages, const std::string& path) {
  if (!taken_ || !messages.is_array()) return messages;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.is_object()) continue;
    const std::string place = fmt::format("{}[{}]", path, i);
    for (const char* name : {"content", "output"})
      if (message.contains(name)) put_into(message[name], fmt::format("{}.{}", place, name));
    const Json* images = member(message, "images"); // Ollama's
    if (!images || !images->is_array()) continue;
    Json parts = Json::array();
    for (size_t k = 0; k < images->size(); ++k)
      parts.push_back(mark_of_base64(text_of(&(*images)[k]), fmt::format("{}.images[{}]", place, k)));
    if (const std::string text = text_of(member(message, "content")); !text.empty())
      parts.push_back({{"type", "text"}, {"text", text}});
    message["content"] = std::move(parts);
    message.erase("images");
  }
  return messages;
}

} // namespace ridge::server
