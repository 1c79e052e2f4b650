// llama: Llama 1-3, Mistral, TinyLlama, SmolLM, Yi, and, with experts, Mixtral.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  const bool experts = b.hparams().experts() > 0;
  b.transformer({.rope = Rope::adjacent},
                [&](core::ValueId x, int64_t il) { return experts ? b.experts(x, il) : b.ffn(x, il); });
}

constinit const ArchitectureFile arch::llama = {.build = build,
                                                .checkpoint = {.interleave_qk = true,
                                                               .slides_by_default = true,
                                                               .router = "block_sparse_moe.gate",
                                                               .expert_gate = "block_sparse_moe.experts.{}.w1",
                                                               .expert_up = "block_sparse_moe.experts.{}.w3",
                                                               .expert_down = "block_sparse_moe.experts.{}.w2"}};

} // namespace ridge::models
