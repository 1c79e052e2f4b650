// dots.note 3.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  const LatentSpec plain = {.plain_rope = true, .rope_norm = true, .gate = true};
  LatentSpec slides = plain, chooses = plain;
  slides.rope_base = h.sliding_rope_base();
  slides.rank = h.positive_int("attention.kv_lora_rank_swa", kMaxHeadDim);
  slides.k_dim = h.positive_int("attention.key_length_mla_swa", kMaxHeadDim);
  slides.v_dim = h.positive_int("attention.value_length_mla_swa", kMaxHeadDim);
  slides.window = h.window();
  chooses.sees = LatentSpec::AttendedPositions::own_choice;
  chooses.index_rope = Rope::split;
  chooses.index_epsilon = 1e-6;
  const RoutingSpec routing = {
      .normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true};
  b.build({.mixer = [&](ValueId x,
                        int64_t il) { return blocks::latent_attention(b, x, il, h.slides(il, 1) ? slides : chooses); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::feed_forward(b, x, il, routing); }});
}

constinit const ArchitectureFile arch::dots3note = {.build = build};

} // namespace ridge::models
