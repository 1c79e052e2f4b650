// Conversations as documents.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace ridge::app {

// OpenAI-style messages as Markdown, with roles. Reasoning is collapsible.
std::string conversation_as_markdown(const nlohmann::ordered_json& messages, std::string_view title);

// Content of the last, perhaps unterminated ``` or ~~~ block; empty: none.
// end of the text.
std::string last_code(std::string_view markdown);

} // namespace ridge::app
