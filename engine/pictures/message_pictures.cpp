#include "engine/pictures/message_pictures.h"

#include "engine/pictures/picture_shelf.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::engine {
namespace {

using Json = nlohmann::ordered_json;
using MarkOf = std::function<std::string(const GivenPicture&)>;

const Json* member(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

std::string text_of(const Json* value) { return value && value->is_string() ? value->get<std::string>() : ""; }

Json text_part(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

Json mark_of_url(const std::string& url, std::string place, const MarkOf& mark_of) {
  constexpr std::string_view kBase64 = ";base64,";
  const size_t data = url.find(kBase64);
  if (url.starts_with("data:") && data != std::string::npos)
    return text_part(
        mark_of({.base64 = std::string_view(url).substr(data + kBase64.size()), .place = std::move(place)}));
  return text_part(mark_of({.url = url, .is_address = true, .place = std::move(place)}));
}

void put_marks(Json& content, const std::string& path, const MarkOf& mark_of) {
  if (!content.is_array()) return;
  for (size_t i = 0; i < content.size(); ++i) {
    Json& part = content[i];
    if (!part.is_object()) continue;
    const std::string place = fmt::format("{}[{}]", path, i), type = text_of(member(part, "type"));
    if (type == "image_url" || type == "input_image") {
      const Json* given = member(part, "image_url");
      const bool nested = given && given->is_object();
      const std::string url = text_of(nested ? member(*given, "url") : given);
      part = mark_of_url(url, place + (nested ? ".image_url.url" : ".image_url"), mark_of);
    } else if (type == "image") {
      const Json* source = member(part, "source");
      const bool inside = source && source->is_object();
      const std::string data = inside ? text_of(member(*source, "data")) : "";
      if (inside && text_of(member(*source, "type")) == "base64")
        part = text_part(mark_of({.base64 = data, .place = place + ".source.data"}));
      else
        part = mark_of_url(inside ? text_of(member(*source, "url")) : "", place + ".source", mark_of);
    } else if (type == "input_audio") {
      const Json* sound = member(part, "input_audio");
      const bool inside = sound && sound->is_object();
      const std::string data = inside ? text_of(member(*sound, "data")) : "";
      part = text_part(mark_of({.base64 = data, .place = place + ".input_audio.data"}));
    } else if (part.contains("content")) {
      put_marks(part["content"], place + ".content", mark_of);
    }
  }
}

Json part_of(const std::string& url) {
  constexpr std::string_view kSound = "data:audio/";
  if (!url.starts_with(kSound)) return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
  const size_t end = url.find(';'), data = url.find(',');
  const std::string format = url.substr(kSound.size(), end - kSound.size());
  return {{"type", "input_audio"},
          {"input_audio", {{"data", url.substr(data + 1)}, {"format", format == "mpeg" ? "mp3" : format}}}};
}

Json parts_of(std::string_view text, const std::function<std::string(std::string_view)>& url_of) {
  Json parts = Json::array();
  std::string before;
  const auto add_text = [&](std::string_view more) { before += more; };
  for (std::string_view mark; !(mark = PictureShelf::find_mark(text)).empty();) {
    add_text(text.substr(0, mark.data() - text.data()));
    text.remove_prefix(mark.data() + mark.size() - text.data());
    const std::string url = url_of(mark);
    if (url.empty()) {
      add_text(mark);
      continue;
    }
    if (!before.empty()) parts.push_back(text_part(std::exchange(before, {})));
    parts.push_back(part_of(url));
  }
  add_text(text);
  if (!before.empty()) parts.push_back(text_part(std::move(before)));
  return parts;
}

} // namespace

Json with_marks(Json messages, const std::string& path, const MarkOf& mark_of) {
  if (!messages.is_array()) return messages;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.is_object()) continue;
    const std::string place = fmt::format("{}[{}]", path, i);
    for (const char* name : {"content", "output"})
      if (message.contains(name)) put_marks(message[name], fmt::format("{}.{}", place, name), mark_of);
    const Json* images = member(message, "images"); // Ollama's
    if (!images || !images->is_array()) continue;
    Json parts = Json::array();
    for (size_t k = 0; k < images->size(); ++k) {
      const std::string data = text_of(&(*images)[k]);
      parts.push_back(text_part(mark_of({.base64 = data, .place = fmt::format("{}.images[{}]", place, k)})));
    }
    if (const std::string text = text_of(member(message, "content")); !text.empty()) parts.push_back(text_part(text));
    message["content"] = std::move(parts);
    message.erase("images");
  }
  return messages;
}

Json without_marks(Json messages, const std::function<std::string(std::string_view mark)>& url_of) {
  for (Json& message : messages)
    if (const std::string text = text_of(member(message, "content")); PictureShelf::has_mark(text))
      message["content"] = parts_of(text, url_of);
  return messages;
}

} // namespace ridge::engine
