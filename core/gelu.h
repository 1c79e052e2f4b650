// Below this magnitude gelu rounds x and its result to f16, like llama.cpp's CPU table, so that logits agree; beyond,
// it is x or 0.
#pragma once

namespace ridge::core {

inline constexpr float kGeluIsIdentity = 10;

} // namespace ridge::core
