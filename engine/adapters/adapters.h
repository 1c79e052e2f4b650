// LoRA adapters and their scales per text.
#pragma once

#include "api/requests.h"
#include "engine/loading/loaded_model.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::engine {

// Call before making the executor. Throws Error if a file is no adapter of this model.
LoadedModel with_adapters(LoadedModel model, std::span<const api::AdapterOption> adapters);

// "FILE", "FILE:SCALE", or a comma-separated list. Throws a usage Error.
std::vector<api::AdapterOption> parse_adapters(const std::string& text);

// Empty `scales`: as loaded. An activated adapter applies from the last place of its invocation tokens on, or nowhere
// without them.
std::vector<core::AdapterUse> adapter_uses(std::span<const core::Adapter> adapters, std::span<const float> scales,
                                           std::span<const int32_t> text);

// The text as caches see it: where adapters begin to apply, a number derived from them replaces the token, so only rows
// before it are shared with other texts. Empty if no adapter applies.
std::vector<int32_t> marked_text(std::span<const int32_t> text, std::span<const core::Adapter> adapters,
                                 std::span<const core::AdapterUse> uses);

} // namespace ridge::engine
