// How requests and responses are written on a connection, as far as the parser does not know it.
#pragma once

#include "server/http/message.h"

#include <optional>
#include <string>
#include <string_view>

namespace ridge::server {

// Sets path and parameters from a request's target, "/a%20b?c=d" or "http://host/a". False: it is neither.
bool take_target(std::string_view target, HttpRequest& request);

// How the other side finds the end of a content.
enum class Framing { length, chunks, close };
// Status line and headers, with the empty line behind them. `length`: of the content, with Framing::length.
std::string response_head(const HttpResponse& response, Framing framing, size_t length, bool keep_open);
std::string chunk(std::string_view bytes); // never empty: that would end the content
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

} // namespace ridge::server
