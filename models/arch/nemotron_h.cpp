// nemotron_h and nemotron_h_moe: Nemotron-H and Nemotron Nano 2 (4B, 9B, 12B). Each layer is one block; attention knows
// no positions; the feed-forward part is a squared ReLU without a gate.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

// In nemotron_h_moe (Nemotron 3 Nano, Super) experts, which may work on a narrower copy of the input.
static ValueId feed_forward(Builder& b, ValueId x, int64_t il) {
  const ActivationSpec activation = {.activation = {core::Activation::relu_squared}, .gated = false};
  if (b.hparams().experts() == 0) return b.ffn(x, il, activation);
  return b.experts(x, il,
                   {.normalize = b.hparams().get_bool("expert_weights_norm", false),
                    .gate = core::Gate::sigmoid,
                    .selection_bias = true,
                    .shared = true,
                    .latent = true},
                   activation);
}

static void build(Builder& b) {
  // A layer is a scan, attention or a feed-forward part, as its counts of heads and hidden elements say.
  b.build({.mixer = [&](ValueId x, int64_t il) {
    if (b.hparams().layer_int("feed_forward_length", il) != 0) return feed_forward(b, x, il);
    return b.hparams().has_attention(il) ? b.attention(x, il, {}) : b.mamba2(x, il);
  }});
}

constinit const ArchitectureFile arch::nemotron_h = {.build = build};

} // namespace ridge::models
