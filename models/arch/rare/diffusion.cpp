// Models that write by diffusion: llada, llada-moe (LLaDA), dream (Dream) and rnd1 (RND1). Tokens see later ones, too.
// Their layers are those of llama, olmoe, qwen2 and qwen3moe.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool llada = h.architecture() == "llada", normalizes = h.architecture() == "rnd1",
             experts = normalizes || h.architecture() == "llada-moe";
  const AttentionSpec attention = {.rope = llada ? Rope::adjacent : Rope::split,
                                   .qk_norm = experts,
                                   .rope_factors = false,
                                   .output_bias = !llada,
                                   .causal = h.get_bool("attention.causal", false)};
  if (llada) b.skip("rope_freqs.weight");
  b.build({.mixer = [&](ValueId x, int64_t il) { return b.attention(x, il, attention); },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return experts ? b.experts(x, il, {.normalize = normalizes, .gate = core::Gate::softmax})
                                : b.ffn(x, il, {.bias = !llada});
               },
           .output_bias = false});
}

constinit const ArchitectureFile arch::diffusion = {.build = build};

} // namespace ridge::models
