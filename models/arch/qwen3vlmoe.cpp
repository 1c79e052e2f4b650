// qwen3vlmoe: the language model of Qwen3-VL with experts (30B-A3B, 235B-A22B).
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.hparams().get_int("n_deepstack_layers", 0); // layers that images enter at
  b.transformer({.rope = Rope::split, .qk_norm = true, .rope_axes = RopeAxes::interleaved}, [&](ValueId x, int64_t il) {
    return b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax});
  });
}

constinit const ArchitectureFile arch::qwen3vlmoe = {.build = build};

} // namespace ridge::models
