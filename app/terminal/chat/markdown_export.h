// A conversation as a document, and parts of one.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace ridge::app {

// Messages in OpenAI's form, as Markdown, in order and with the role of each. Reasoning folds away.
std::string conversation_as_markdown(const nlohmann::ordered_json& messages, std::string_view title);

// What stands in the last block between ``` or ~~~ fences; empty: there is none. A block that does not end goes to the
// end of the text.
std::string last_code(std::string_view markdown);

} // namespace ridge::app
