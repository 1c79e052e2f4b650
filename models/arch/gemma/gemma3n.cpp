// Gemma 3n (E2B, E4B), text only, with AltUp. The last layers reuse earlier caches.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static constexpr int64_t kParts = 4, kOwnCaches = 20, kSparse = 10; // the last two count layers
static constexpr double kDeviations = 1.6448533535003662;           // 5% of a normal distribution lie above

static AttentionSpec attention_of(const Hparams& h, int64_t il) {
  const bool slides = h.slides(il, 5);
  AttentionSpec spec = {
      .rope = Rope::split, .qk_norm = true, .rope_factors = false, .scale = 1, .window = 0, .v_norm = true};
  if (slides) {
    spec.window = h.window();
    spec.rope_base = h.sliding_rope_base(10000);
    spec.rope_divisor = 1;
  }
  if (il >= kOwnCaches) spec.kv_of = kOwnCaches - (slides ? 2 : 1);
  return spec;
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  if (const int64_t parts = h.get_int("altup.num_inputs", kParts); parts != kParts)
    h.refuse("altup.num_inputs", fmt::format("{}", parts), "residual streams with other than 4 parts are");
  if (const int64_t active = h.get_int("altup.active_idx", 0); active != 0)
    h.refuse("altup.active_idx", fmt::format("{}", active), "layers that compute a part other than the first are");
  const ValueId embedding = b.embed(std::sqrt(static_cast<double>(h.width())));
  const ValueId inputs = blocks::layer_inputs(b, embedding, h.get_int("embedding_length_per_layer_input", 256));
  ValueId stream = blocks::altup_stream(b, embedding, kParts);
  for (int64_t il = 0; il < h.layers(); ++il) {
    const std::string blk = b.begin_layer(il);
    ValueId predicted = blocks::altup_predict(b, stream, il, kParts);
    const ValueId first = blocks::columns(b, predicted, blk + "altup_active", 0, h.width());
    const ValueId normed = b.rms_norm(first, blk + "attn_norm");
    const ValueId attended =
        b.rms_norm(blocks::attention(b, normed, il, attention_of(h, il)), blk + "post_attention_norm");
    ValueId x =
        b.scaled(b.add(b.add(attended, first, blk + "attn_add"), blocks::laurel(b, normed, il), blk + "laurel_sum"),
                 blk + "laurel_scale", std::sqrt(0.5));
    if (il + 1 == h.layers()) { // only tokens with wanted logits continue
      x = b.gather(x);
      predicted = b.gather(predicted);
    }
    const ValueId ffn_input = b.rms_norm(x, blk + "ffn_norm");
    const ValueId hidden = il < kSparse ? blocks::sparse_ffn(b, ffn_input, il, kDeviations)
                                        : blocks::ffn(b, ffn_input, il, {.activation = {core::Activation::gelu}});
    const ValueId computed = b.add(b.rms_norm(hidden, blk + "post_ffw_norm"), x, blk + "ffn_add");
    stream =
        blocks::altup_layer_input(b, blocks::altup_correct(b, predicted, computed, il, kParts), inputs, il, kParts);
  }
  b.logits(blocks::altup_mean(b, stream, kParts), "output_norm", 1, h.get_float("final_logit_softcapping", 30));
}

constinit const ArchitectureFile arch::gemma3n = {.build = build};

} // namespace ridge::models
