// LoRA adapters of a loaded model, and how much of them counts for a text.
#pragma once

#include "core/requests.h"
#include "engine/loaded_model.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::engine {

// The model, before its executor is made, with the adapters that the options name in its Program. Throws Error for
// files that are no adapters of this model.
LoadedModel with_adapters(LoadedModel model, std::span<const core::AdapterOption> adapters);

// "FILE", "FILE:SCALE" or several of them with commas between. Throws a usage Error for a scale out of range.
std::vector<core::AdapterOption> parse_adapters(const std::string& text);

// How much of each adapter counts for a text: `scales` of them, or what was said when the model was loaded where that
// is empty. An activated adapter counts from the last place on where the text has its invocation tokens; where it has
// none, nowhere.
std::vector<core::AdapterUse> adapter_uses(std::span<const core::Adapter> adapters, std::span<const float> scales,
                                           std::span<const int32_t> text);

// The text as caches tell it from others: where adapters begin to count, a number that follows from them stands for the
// token, so that what was evaluated before it belongs to texts without them, too, and nothing behind it does. Empty
// where none counts.
std::vector<int32_t> marked_text(std::span<const int32_t> text, std::span<const core::Adapter> adapters,
                                 std::span<const core::AdapterUse> uses);

} // namespace ridge::engine
