// ModernBERT, Granite Embedding R2, NeoBERT.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {
namespace {

using core::Activation;
using core::ValueId;

AttentionSpec attention_of(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.rope = Rope::split, .rope_factors = false, .window = 0};
  spec.causal = h.get_bool("attention.causal", false);
  const int64_t window = h.get_int("attention.sliding_window", 0);
  if (window == 0 || !h.slides(il, 3, Hparams::Sees::all_first)) return spec;
  spec.window = h.window() / 2 + 1;
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

ActivationSpec activation_of(const Hparams& h) {
  const std::string name = h.get_string("hidden_activation", "gelu");
  for (const char* gelu : {"gelu", "geglu"})
    if (name == gelu) return {{Activation::gelu}};
  for (const char* silu : {"silu", "swish", "swiglu"})
    if (name == silu) return {};
  h.refuse("hidden_activation", name, "activations other than gelu and silu are");
}

void build_neo_bert(Builder& b) {
  const AttentionSpec attention = {
      .rope = Rope::adjacent, .rope_factors = false, .causal = b.hparams().get_bool("attention.causal", false)};
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .output_norm = "enc.output_norm",
           .embeds = true});
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const ActivationSpec activation = activation_of(h);
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 const std::string norm = b.layer_name(il) + "attn_norm";
                 if (il > 0 || b.has(norm + ".weight")) x = b.layer_norm(x, norm); // the first input is already normed
                 return blocks::attention(b, x, il, attention_of(h, il));
               },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il, activation); },
           .mixer_norm = "",
           .layer_norms = true,
           .embeds = true,
           .begin = [&](ValueId x) { return b.layer_norm(x, "token_embd_norm"); }});
}

} // namespace

constinit const ArchitectureFile arch::modern_bert = {.build = build};
constinit const ArchitectureFile arch::neo_bert = {.build = build_neo_bert};

} // namespace ridge::models
