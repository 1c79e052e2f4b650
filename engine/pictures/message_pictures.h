// Pictures and sounds in messages, as clients of OpenAI's, Anthropic's and Ollama's APIs write them.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace ridge::engine {

// A picture or a sound of a message.
struct GivenPicture {
  std::string_view base64; // its file
  std::string_view url;    // an address instead, which may be any text
  bool is_address = false;
  std::string place; // in the messages: "messages[0].content[1].image_url.url"
};

// The messages, or items of a response's input, with parts of text in place of pictures, which mark_of(picture) gives.
// `path` stands for the list.
nlohmann::ordered_json with_marks(nlohmann::ordered_json messages, const std::string& path,
                                  const std::function<std::string(const GivenPicture&)>& mark_of);

// The messages with pictures in place of marks, as parts in OpenAI's form. url_of(mark): of a picture; empty: the mark
// stays.
nlohmann::ordered_json without_marks(nlohmann::ordered_json messages,
                                     const std::function<std::string(std::string_view mark)>& url_of);

} // namespace ridge::engine
