// qwen3moe: Qwen 3 with experts in every layer (30B-A3B, 235B-A22B).
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  b.transformer({.rope = Rope::split, .qk_norm = true}, [&](core::ValueId x, int64_t il) { return b.experts(x, il); });
}

constinit const ArchitectureFile arch::qwen3moe = {.build = build,
                                                   .checkpoint = {.qk_norm = true,
                                                                  .router = "mlp.gate",
                                                                  .expert_gate = "mlp.experts.{}.gate_proj",
                                                                  .expert_up = "mlp.experts.{}.up_proj",
                                                                  .expert_down = "mlp.experts.{}.down_proj",
                                                                  .shares_sum_to_1 = "norm_topk_prob"}};

} // namespace ridge::models
