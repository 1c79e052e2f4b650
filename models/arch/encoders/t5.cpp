// T5 and Flan-T5: an encoder and a decoder whose positions are score biases by distance.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {
namespace {

using core::Activation;
using core::ValueId;

ValueId ffn(Builder& b, ValueId x, int64_t il) {
  const bool gated = b.has(b.layer_name(il) + "ffn_gate.weight");
  return blocks::ffn(b, x, il, {{gated ? Activation::gelu : Activation::relu}, gated});
}

int64_t decoder_layers(const Hparams& h) {
  const int64_t layers = h.get_int("decoder_block_count", h.layers());
  if (layers < 1 || layers > kMaxLayers)
    h.refuse("decoder_block_count", std::to_string(layers), "these numbers of layers are");
  return layers;
}

void build_encoder(Builder& b, bool causal) {
  const int64_t layers = b.hparams().layers();
  const AttentionSpec attention = {.scale = 1, .causal = causal, .distance_bias = true, .output_tensor = "attn_o"};
  b.hparams().get_float("logit_scale", 0);
  blocks::skip_stack(b, "dec.");
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); },
           .ffn = [&](ValueId x, int64_t il) { return ffn(b, x, il); },
           .output_norm = "enc.output_norm",
           .ffn_has_state = b.encodes(), // the last layer processes all tokens
           .embeds = true,
           .stack = "enc.",
           .end_layer =
               [&](ValueId x, int64_t il) {
                 if (b.encodes() && il + 1 == layers)
                   blocks::store_encoded(b, b.rms_norm(x, "enc.output_norm"), decoder_layers(b.hparams()));
                 return x;
               }});
}

void build_decoder(Builder& b) {
  const AttentionSpec attention = {.scale = 1,
                                   .causal = true,
                                   .block_ahead = false,
                                   .distance_bias = true,
                                   .bias_ahead = false,
                                   .output_tensor = "attn_o"};
  b.set_start_token(static_cast<int32_t>(b.hparams().get_int("decoder_start_token_id", 0)));
  blocks::skip_stack(b, "enc.");
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attend_to_encoded(b, x, il); },
           .ffn = [&](ValueId x, int64_t il) { return ffn(b, x, il); },
           .mixer_norm = "cross_attn_norm",
           .output_norm = "dec.output_norm",
           .scaled = true, // logits are scaled if the token table is the output matrix
           .stack = "dec.",
           .layers = decoder_layers(b.hparams()),
           .start_layer =
               [&](ValueId x, int64_t il) {
                 const std::string blk = b.layer_name(il);
                 return b.add(x, blocks::attention(b, b.rms_norm(x, blk + "attn_norm"), il, attention),
                              blk + "self_attn_add");
               }});
}

// Encoder files do not state causality. In llama.cpp tokens see later ones when it encodes texts, but not when it
// decodes token ids; files without a vocabulary follow the latter.
void build_encoder_alone(Builder& b) {
  build_encoder(b, b.hparams().get_bool("attention.causal", !b.has_vocabulary()));
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  if (!b.embeds() || b.encodes()) blocks::share_caches(b, h.layers(), decoder_layers(h));
  b.embeds() ? build_encoder(b, false) : build_decoder(b);
}

} // namespace

constinit const ArchitectureFile arch::t5 = {.build = build};
constinit const ArchitectureFile arch::t5_encoder = {.build = build_encoder_alone};

} // namespace ridge::models
