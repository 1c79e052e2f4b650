// Errors as each API writes them.
#pragma once

#include "server/api_error.h"
#include "server/fields.h"
#include "server/http/message.h"

#include <exception>
#include <string>

namespace ridge::server {

enum class ErrorForm { openai, anthropic, ollama };

// The form of what is wrong with a request, whether its path is a route's or not: by what the path begins with, or by
// the header that Anthropic's clients send to paths that OpenAI's have, too.
ErrorForm form_of(const HttpRequest& request);

Json error_json(ErrorForm form, const ApiError& error);

// What a client is told of what a route has thrown: an ApiError as it is; an Error of the engine (a prompt that does
// not fit, a template that refuses) with status 400; all else is "internal error" with status 500.
ApiError to_api_error(const std::exception& thrown);

// The errors that several routes have.
ApiError no_such_model(const std::string& name);
ApiError prompt_too_long(int64_t tokens, int64_t context, const std::string& parameter = {});

} // namespace ridge::server
