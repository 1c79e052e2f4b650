// DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash, Mistral Large 3 and Small 4.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

// Without a gate function, GLM-4.7-Flash means sigmoid, older DeepSeek files softmax.
static core::Gate unnamed_gate(const Hparams& h) {
  const bool glm = (h.layers() == 47 || h.layers() == 48) && h.get_int("vocab_size", 0) == 154880;
  return glm ? core::Gate::sigmoid : core::Gate::softmax;
}

template <bool deepseek>
static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  // The converter stores a tenth of the multiplier. DeepSeek's own models also apply it in rope, where it cancels out.
  const double multiplier = h.get_float("rope.scaling.yarn_log_multiplier", 0) / 0.1;
  const bool cancels = deepseek && multiplier != 0;
  LatentSpec attention = blocks::latent_spec(b, multiplier, cancels ? multiplier : 1);
  if (const double scale = h.get_float("attention.temperature_scale", 0); scale != 0)
    attention.position_scale = {static_cast<float>(scale), h.positive_int("attention.temperature_length", kMaxContext)};
  RoutingSpec routing = {.normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true};
  if (h.get_int("expert_gating_func", 0) == 0) routing.gate = unnamed_gate(h);
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::latent_attention(b, x, il, attention); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::feed_forward(b, x, il, routing); },
           .drafts = deepseek ? Drafts::normed : Drafts::none});
}

constinit const ArchitectureFile arch::deepseek2 = {.build = build<true>};
constinit const ArchitectureFile arch::mistral4 = {.build = build<false>};

} // namespace ridge::models
