// Gemma 1 to 3, EmbeddingGemma (not causal, symmetric windows) and Muse Glimmer.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

// The largest models divide scores by sqrt(width / heads), which differs from the head width.
static double scale_of(const Hparams& h, int64_t largest_layers) {
  return 1 / std::sqrt(static_cast<double>(h.layers() == largest_layers ? h.width() / h.heads(0) : h.k_dim(0)));
}

static AttentionSpec gemma2(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.rope = Rope::split, .rope_factors = false, .scale = scale_of(h, 46), .window = 0};
  spec.soft_cap = h.get_float("attn_logit_softcapping", 50);
  if (!h.slides(il, 2)) return spec;
  spec.window = h.window(4096);
  spec.rope_base = h.sliding_rope_base();
  return spec;
}

static AttentionSpec gemma3(const Hparams& h, int64_t il) {
  AttentionSpec spec = {
      .rope = Rope::split, .qk_norm = true, .rope_factors = false, .scale = scale_of(h, 62), .window = 0};
  if (h.get_int("attention.sliding_window", 0) == 0 || !h.slides(il, 6)) return spec;
  spec.window = h.window();
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

static AttentionSpec muse_glimmer(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.qk_norm = true, .window = 0, .gate_matrix = true};
  spec.scale = 1 / std::sqrt(static_cast<double>(h.v_dim(il)));
  if (!h.slides(il, 4)) return spec;
  spec.rope = Rope::adjacent;
  spec.rope_factors = false;
  spec.window = h.window();
  spec.rope_base = h.sliding_rope_base();
  spec.rope_divisor = 1;
  return spec;
}

static AttentionSpec gemma_embedding(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.rope = Rope::split, .qk_norm = true, .rope_factors = false, .window = 0, .causal = false};
  spec.scale = 1 / std::sqrt(static_cast<double>(h.k_dim(0)));
  if (!h.slides(il, 6)) return spec;
  spec.window = h.window() / 2 + 1;
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

static AttentionSpec gemma1(const Hparams& h, int64_t il) {
  return {.rope = Rope::split, .rope_factors = false, .scale = 1 / std::sqrt(static_cast<double>(h.v_dim(il)))};
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool muse = h.architecture() == "muse-glimmer", third = h.architecture() == "gemma3";
  const bool first = h.architecture() == "gemma", embeds = h.architecture() == "gemma-embedding";
  const auto attention = first ? gemma1 : muse ? muse_glimmer : third ? gemma3 : embeds ? gemma_embedding : gemma2;
  const ActivationSpec activation = {.activation = {muse ? core::Activation::silu : core::Activation::gelu}};
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention(h, il)); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il, activation); },
           .mixer_post_norm = first ? "" : "post_attention_norm",
           .ffn_post_norm = first ? "" : "post_ffw_norm",
           .embedding_scale = muse ? 1 : std::sqrt(static_cast<double>(h.width())),
           .logit_scale = muse ? h.get_float("logit_scale", 1) : 1,
           .soft_cap = h.get_float("final_logit_softcapping", first || third || embeds ? 0 : 30),
           .embeds = embeds,
           .post_norm_epsilon = muse ? std::optional(1e-8f) : std::nullopt,
           .begin = [&](ValueId x) { return muse ? b.unit_norm(x, "embd_norm", h.width()) : x; }});
}

constinit const ArchitectureFile arch::gemma = {.build = build};

} // namespace ridge::models
