// A field that changes answers is applied or refused by name. Unknown fields are ignored and counted.
#pragma once

#include "server/json/fields.h"

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
  options,    // `options` of these
  embeddings, // /v1/embeddings, /api/embed, /api/embeddings
  rerank,     // /v1/rerank, /v1/score
  native,     // /completion
  infill,     // /infill
};

// Throws ApiError for an unsupported field, unless its value has no effect.
void check_fields(ModelService& service, const Fields& body, Api api);

std::vector<std::string_view> refused_fields();

} // namespace ridge::server
