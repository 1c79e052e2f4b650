// How exactly gelu is computed. Below a magnitude of 10 it takes x rounded to f16 and rounds its result to f16, as the
// table of llama.cpp's CPU code does, so that logits agree with its; from there on it is x, or 0.
#pragma once

namespace ridge::core {

inline constexpr float kGeluIsIdentity = 10;

} // namespace ridge::core
