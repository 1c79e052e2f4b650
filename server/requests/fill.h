// Fill-in-the-middle prompts.
#pragma once

#include "server/models/service.h"
#include "text/fill/fill_tokens.h"

#include <optional>
#include <vector>

namespace ridge::server {

// `most` limits the tokens; null: no limit. Throws ApiError if the vocabulary has no fill tokens.
std::vector<int32_t> fill_prompt(const Service& service, const text::FillText& text,
                                 std::optional<int64_t> most = std::nullopt);

} // namespace ridge::server
