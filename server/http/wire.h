// HTTP's form of targets, heads and chunks.
#pragma once

#include "server/http/message.h"

#include <optional>
#include <string>
#include <string_view>

namespace ridge::server {

// Splits "/a%20b?c=d" or "http://host/a"; false: it is neither.
bool take_target(std::string_view target, HttpRequest& request);

// How the end of a content is marked.
enum class Framing { length, chunks, close };
// Includes the empty line.
std::string response_head(const HttpResponse& response, Framing framing, size_t length, bool keep_open);
std::string chunk(std::string_view bytes); // must not be empty, which would end the content
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

} // namespace ridge::server
