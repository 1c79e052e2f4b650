// Errors in each API's form.
#pragma once

#include "server/http/message.h"
#include "server/json/api_error.h"
#include "server/json/fields.h"

#include <exception>
#include <string>

namespace ridge::server {

enum class ErrorForm { openai, anthropic, ollama };

// Decides by the path, or by Anthropic's header on shared paths.
ErrorForm form_of(const HttpRequest& request);

Json error_json(ErrorForm form, const ApiError& error);

// The engine's Error gets status 400. Other exceptions become "internal error" with status 500.
ApiError to_api_error(const std::exception& thrown);

ApiError no_such_model(const std::string& name);
ApiError prompt_too_long(int64_t tokens, int64_t context, const std::string& parameter = {});

} // namespace ridge::server
