// qwen3moe: Qwen 3 with experts in every layer (30B-A3B, 235B-A22B).
#include "models/blocks.h"

namespace ridge::models {

void build_qwen3moe(Builder& b) {
  const int64_t expert_width = b.get_int("expert_feed_forward_length");
  b.transformer({.rope = core::RopeStyle::split, .qk_norm = true},
                [&](core::ValueId x, int64_t il) { return b.experts(x, il, expert_width); });
}

} // namespace ridge::models
