// Hunyuan 4.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  LatentSpec attention = {.plain_rope = true, .sinks = true, .gate = true, .index_rope_last = true};
  attention.index_epsilon = h.norm_epsilon();
  const bool chooses = h.get_int("attention.indexer.top_k", 0) > 0;
  RoutingSpec routing = {.normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true};
  if (h.get_int("expert_gating_func", 0) == 0) routing.gate = core::Gate::sigmoid;
  const auto mixer = [&](ValueId x, int64_t il) {
    const bool own = h.layer_int("attention.indexer.types", il, 1) != 0;
    attention.sees = !chooses ? LatentSpec::AttendedPositions::all
                     : own    ? LatentSpec::AttendedPositions::own_choice
                              : LatentSpec::AttendedPositions::last_choice;
    return blocks::latent_attention(b, x, il, attention);
  };
  const auto feed_forward = [&](ValueId x, int64_t il) {
    ActivationSpec activation;
    activation.limit_of_experts = static_cast<float>(h.layer_float("swiglu_clamp_exp", il, 0));
    return blocks::feed_forward(b, x, il, routing, activation);
  };
  b.build({.mixer = mixer, .ffn = feed_forward, .hyper_connections = HyperConnections::independent});
}

constinit const ArchitectureFile arch::hy_v4 = {.build = build};

} // namespace ridge::models
