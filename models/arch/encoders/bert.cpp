// BERT-like encoders with post layer norms.
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

enum class Positions : uint8_t { learned, rope, bias };
enum class Gated : uint8_t { never, always, by_tensors };
struct Facts {
  Positions positions = Positions::rope;
  Gated gated = Gated::never;
  bool experts = false; // in every few layers
};

ActivationSpec activation_of(Builder& b, int64_t il, Gated gated) {
  if (gated == Gated::always) return {.bias = false};
  if (gated == Gated::never) return {{Activation::gelu}, false};
  const gguf::Tensor* up = b.tensor(b.layer_name(il) + "ffn_up.weight");
  const bool both = up && up->dims[1] == 2 * b.hparams().ffn_width(il);
  return {{Activation::gelu}, both || b.has(b.layer_name(il) + "ffn_gate.weight")};
}

template <Facts facts>
void build(Builder& b) {
  const Hparams& h = b.hparams();
  AttentionSpec attention = {.rope = facts.positions == Positions::rope ? Rope::split : Rope::none,
                             .norms_whole_rows = true,
                             .rope_factors = false,
                             .scale = 1 / std::sqrt(static_cast<double>(h.v_dim(0))),
                             .max_bias = facts.positions == Positions::bias ? 8.0 : 0.0,
                             .causal = h.get_bool("attention.causal", false)};
  const int64_t step = facts.experts ? h.get_int("moe_every_n_layers", 0) : 0;
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
             return blocks::ffn(b, x, il, activation_of(b, il, facts.gated));
           },
       .mixer_norm = "",
       .ffn_norm = "",
       .output_norm = "",
       .layer_norms = true,
       .learns_positions = facts.positions == Positions::learned,
       .embeds = true,
       .end_mixer = [&](ValueId x, ValueId before, int64_t il) { return end_mixer(b, x, before, il); },
       .begin = [&](ValueId x) { return b.layer_norm(x, "token_embd_norm"); },
       .end_layer = [&](ValueId x, int64_t il) { return b.layer_norm(x, b.layer_name(il) + "layer_output_norm"); }});
}

} // namespace

constinit const ArchitectureFile arch::bert = {.build = build<Facts{.positions = Positions::learned}>};
constinit const ArchitectureFile arch::nomic_bert = {.build = build<Facts{.gated = Gated::always}>};
constinit const ArchitectureFile arch::nomic_bert_moe = {.build = build<Facts{.experts = true}>};
constinit const ArchitectureFile arch::jina_bert2 = {
    .build = build<Facts{.positions = Positions::bias, .gated = Gated::by_tensors}>};
constinit const ArchitectureFile arch::jina_bert3 = {.build = build<Facts{}>};

} // namespace ridge::models
