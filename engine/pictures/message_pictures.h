// Media in messages of OpenAI, Anthropic and Ollama clients.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace ridge::engine {

struct GivenPicture {
  std::string_view base64;
  std::string_view url; // instead of a file; untrusted text
  bool is_address = false;
  std::string place; // "messages[0].content[1].image_url.url"
};

// Replaces pictures by text parts with mark_of(picture). `path` names the list in errors.
nlohmann::ordered_json with_marks(nlohmann::ordered_json messages, const std::string& path,
                                  const std::function<std::string(const GivenPicture&)>& mark_of);

// Replaces marks by picture parts; an empty url_of(mark) keeps the mark.
nlohmann::ordered_json without_marks(nlohmann::ordered_json messages,
                                     const std::function<std::string(std::string_view mark)>& url_of);

} // namespace ridge::engine
