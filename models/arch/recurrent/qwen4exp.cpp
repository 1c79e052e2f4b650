// Qwen3.8-Flash-Next.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {
      .rope = Rope::split, .qk_norm = true, .rope_axes = RopeAxes::interleaved, .qkv_bias = false, .output_gate = true};
  const auto mixer = [&](ValueId x, int64_t il) {
    if (b.hparams().is_recurrent(il)) return blocks::delta_net(b, x, il, false, core::Activation::sigmoid);
    AttentionSpec sparse = attention;
    sparse.chosen = blocks::chosen_blocks(b, x, il, attention);
    return blocks::attention(b, x, il, sparse);
  };
  const auto feed_forward = [&](ValueId x, int64_t il) {
    return blocks::experts(b, x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
  };
  b.build({.mixer = mixer,
           .ffn = feed_forward,
           .mixer_norm = "",
           .ffn_norm = "",
           .output_norm = "",
           .hyper_connections = HyperConnections::gated,
           .start_layer = [&](ValueId x, int64_t il) { return blocks::add_ngrams(b, x, il); }});
}

constinit const ArchitectureFile arch::qwen4exp = {.build = build};

} // namespace ridge::models
