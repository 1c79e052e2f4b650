// qwen3: the dense Qwen 3 models. Each q and k head is normed before rope.
#include "models/blocks.h"

namespace ridge::models {

void build_qwen3(Builder& b) {
  b.transformer({.rope = core::RopeStyle::split, .qk_norm = true},
                [&](core::ValueId x, int64_t il) { return b.ffn(x, il); });
}

} // namespace ridge::models
