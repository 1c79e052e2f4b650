// BERT-like encoders with post layer norms:
//      bert           learned positions
//      nomic-bert     rope, gated
//      nomic-bert-moe rope, experts in every few layers
//      jina-bert-v2   ALiBi, optional gate
//      jina-bert-v3   rope
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {
namespace {

using core::Activation;
using core::ValueId;

// Jina's code models add the layer's input again after the first norm.
ValueId end_mixer(Builder& b, ValueId x, ValueId before, int64_t il) {
  const std::string blk = b.layer_name(il);
  x = b.layer_norm(x, blk + "attn_output_norm");
  if (!b.has(blk + "attn_norm_2.weight")) return x;
  if (il + 1 == b.hparams().layers()) before = b.gather(before);
  return b.layer_norm(b.add(x, before, blk + "attn_add_2"), blk + "attn_norm_2");
}

ActivationSpec activation_of(Builder& b, int64_t il) {
  const std::string& name = b.hparams().architecture();
  const gguf::Tensor* up = b.tensor(b.layer_name(il) + "ffn_up.weight");
  const bool both = up && up->dims[1] == 2 * b.hparams().ffn_width(il);
  if (name == "nomic-bert") return {.bias = false};
  if (name == "jina-bert-v2") return {{Activation::gelu}, both || b.has(b.layer_name(il) + "ffn_gate.weight")};
  return {{Activation::gelu}, false};
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const auto is = [&](std::string_view name) { return h.architecture() == name; };
  const bool learns_positions = is("bert"), biased = is("jina-bert-v2");
  AttentionSpec attention = {.rope = learns_positions || biased ? Rope::none : Rope::split,
                             .norms_whole_rows = true,
                             .rope_factors = false,
                             .scale = 1 / std::sqrt(static_cast<double>(h.v_dim(0))),
                             .max_bias = biased ? 8.0 : 0.0,
                             .causal = h.get_bool("attention.causal", false)};
  const int64_t step = is("nomic-bert-moe") ? h.get_int("moe_every_n_layers", 0) : 0;
  const RoutingSpec routing = {.normalize = false, .gate = core::Gate::softmax};
  b.build(
      {.mixer =
           [&](ValueId x, int64_t il) {
             attention.qk_norm = b.has(b.layer_name(il) + "attn_q_norm.weight");
             return blocks::attention(b, x, il, attention);
           },
       .ffn =
           [&](ValueId x, int64_t il) {
             if (step > 0 && il % step == 1) return blocks::experts(b, x, il, routing, {{Activation::gelu}, false});
             return blocks::ffn(b, x, il, activation_of(b, il));
           },
       .mixer_norm = "",
       .ffn_norm = "",
       .output_norm = "",
       .layer_norms = true,
       .learns_positions = learns_positions,
       .embeds = true,
       .end_mixer = [&](ValueId x, ValueId before, int64_t il) { return end_mixer(b, x, before, il); },
       .begin = [&](ValueId x) { return b.layer_norm(x, "token_embd_norm"); },
       .end_layer = [&](ValueId x, int64_t il) { return b.layer_norm(x, b.layer_name(il) + "layer_output_norm"); }});
}

} // namespace

constinit const ArchitectureFile arch::bert = {.build = build};

} // namespace ridge::models
