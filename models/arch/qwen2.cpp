// qwen2: Qwen 1.5, 2 and 2.5 (biases on q, k and v are in the files).
#include "models/blocks.h"

namespace ridge::models {

void build_qwen2(Builder& b) {
  b.transformer({.rope = core::RopeStyle::split}, [&](core::ValueId x, int64_t il) { return b.ffn(x, il); });
}

} // namespace ridge::models
