// Which fields a request may have. None that changes an answer is ignored: it is done, or refused by name. Fields that
// no API has are ignored and counted.
#pragma once

#include "server/fields.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::server {

class ModelService;

enum class Api : uint8_t {
  chat,       // /v1/chat/completions
  completion, // /v1/completions
  responses,  // /v1/responses
  messages,   // /v1/messages
  ollama,     // /api/chat, /api/generate
  options,    // the `options` of these
  embeddings, // /v1/embeddings, /api/embed, /api/embeddings
  rerank,     // /v1/rerank, /v1/score
  native,     // /completion
  infill,     // /infill
};

// Counts the fields that no API has. Throws ApiError for one that this server does not do, unless its value is one that
// asks for nothing.
void check_fields(ModelService& service, const Fields& body, Api api);

// The names of fields that are refused, for the documentation.
std::vector<std::string_view> refused_fields();

} // namespace ridge::server
