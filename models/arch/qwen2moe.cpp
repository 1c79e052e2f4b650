// qwen2moe: Qwen 1.5 and 2 with experts (A2.7B, 57B-A14B) and a shared one with a gate. Shares do not sum to 1.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.transformer({.rope = Rope::split}, [&](ValueId x, int64_t il) {
    return b.experts(x, il, {.normalize = false, .gate = core::Gate::softmax, .shared = true});
  });
}

static constexpr FixedField kFixed[] = {{"norm_topk_prob", 0, 0}, {"decoder_sparse_step", 1, 1}};

constinit const ArchitectureFile arch::qwen2moe = {.build = build, .checkpoint = {.fixed = kFixed}};

} // namespace ridge::models
