// qwen3moe: Qwen 3 with experts in every layer (30B-A3B, 235B-A22B).
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  b.transformer({.rope = Rope::split, .qk_norm = true}, [&](core::ValueId x, int64_t il) { return b.experts(x, il); });
}

static constexpr FixedField kFixed[] = {{"norm_topk_prob", 1, 0}, {"decoder_sparse_step", 1, 1}};

constinit const ArchitectureFile arch::qwen3moe = {.build = build, .checkpoint = {.fixed = kFixed}};

} // namespace ridge::models
