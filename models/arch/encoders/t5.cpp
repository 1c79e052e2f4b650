// t5encoder: the encoder of T5 and Flan-T5. It knows positions by a bias of scores that depends on their distance.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::Activation;
using core::ValueId;

static void build(Builder& b) {
  // T5's files do not say that tokens see later ones. llama.cpp lets them where it encodes texts, and not where it
  // decodes token ids; so files without a vocabulary are what it decodes.
  const AttentionSpec attention = {.scale = 1,
                                   .causal = b.hparams().get_bool("attention.causal", !b.has_vocabulary()),
                                   .distance_bias = true,
                                   .output_tensor = "attn_o"};
  b.build({.mixer = [&](ValueId x, int64_t il) { return b.attention(x, il, attention); },
           .ffn =
               [&](ValueId x, int64_t il) { // of T5 without a gate, of Flan-T5 with one
                 const bool gated = b.has(b.layer_name(il) + "ffn_gate.weight");
                 return b.ffn(x, il, {{gated ? Activation::gelu : Activation::relu}, gated});
               },
           .output_norm = "enc.output_norm",
           .embeds = true,
           .stack = "enc."});
}

constinit const ArchitectureFile arch::t5encoder = {.build = build};

} // namespace ridge::models
