// What belongs between two texts, as requests ask for it.
#pragma once

#include "server/service.h"
#include "text/fill/fill_tokens.h"

#include <optional>
#include <vector>

namespace ridge::server {

// The prompt that the model continues with what belongs between the prefix and the suffix. `most`: of its tokens;
// nothing: all are needed. Throws ApiError for a model whose vocabulary has no marks for it.
std::vector<int32_t> fill_prompt(const Service& service, const text::FillText& text,
                                 std::optional<int64_t> most = std::nullopt);

} // namespace ridge::server
