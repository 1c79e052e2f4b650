// Gemma 1 to 3, and EmbeddingGemma (not causal, symmetric windows).
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

// The largest models divide scores by sqrt(width / heads), which differs from the head width.
static double scale_of(const Hparams& h, int64_t largest_layers) {
  return 1 / std::sqrt(static_cast<double>(h.layers() == largest_layers ? h.width() / h.heads(0) : h.k_dim(0)));
}

static AttentionSpec of_gemma2(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.rope = Rope::split, .rope_factors = false, .scale = scale_of(h, 46), .window = 0};
  spec.soft_cap = h.get_float("attn_logit_softcapping", 50);
  if (!h.slides(il, 2)) return spec;
  spec.window = h.window(4096);
  spec.rope_base = h.sliding_rope_base();
  return spec;
}

static AttentionSpec of_gemma3(const Hparams& h, int64_t il) {
  AttentionSpec spec = {
      .rope = Rope::split, .qk_norm = true, .rope_factors = false, .scale = scale_of(h, 62), .window = 0};
  if (h.get_int("attention.sliding_window", 0) == 0 || !h.slides(il, 6)) return spec;
  spec.window = h.window();
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

static AttentionSpec of_gemma_embedding(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.rope = Rope::split, .qk_norm = true, .rope_factors = false, .window = 0, .causal = false};
  spec.scale = 1 / std::sqrt(static_cast<double>(h.k_dim(0)));
  if (!h.slides(il, 6)) return spec;
  spec.window = h.window() / 2 + 1;
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

static AttentionSpec of_gemma(const Hparams& h, int64_t il) {
  return {.rope = Rope::split, .rope_factors = false, .scale = 1 / std::sqrt(static_cast<double>(h.v_dim(il)))};
}

struct GemmaFacts {
  AttentionSpec (*attention)(const Hparams& h, int64_t il);
  bool post_norms = true;
  double soft_cap = 0; // of logits, unless the file says
  bool embeds = false;
};

static void build(Builder& b, const GemmaFacts& facts) {
  const Hparams& h = b.hparams();
  b.build(
      {.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, facts.attention(h, il)); },
       .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il, {.activation = {core::Activation::gelu}}); },
       .mixer_post_norm = facts.post_norms ? "post_attention_norm" : "",
       .ffn_post_norm = facts.post_norms ? "post_ffw_norm" : "",
       .embedding_scale = std::sqrt(static_cast<double>(h.width())),
       .soft_cap = h.get_float("final_logit_softcapping", facts.soft_cap),
       .embeds = facts.embeds});
}

constinit const ArchitectureFile arch::gemma = {
    .build = [](Builder& b) { build(b, {.attention = of_gemma, .post_norms = false}); }};
constinit const ArchitectureFile arch::gemma2 = {
    .build = [](Builder& b) { build(b, {.attention = of_gemma2, .soft_cap = 30}); }};
constinit const ArchitectureFile arch::gemma3 = {.build = [](Builder& b) { build(b, {.attention = of_gemma3}); }};
constinit const ArchitectureFile arch::gemma_embedding = {
    .build = [](Builder& b) { build(b, {.attention = of_gemma_embedding, .embeds = true}); }};

} // namespace ridge::models
