// GLM-5.3-Flash: mostly delta nets, else latent attention to groups of four positions.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  if (const int64_t rotated = h.get_int("rope.dimension_count"); rotated != 0)
    h.refuse("rope.dimension_count", std::to_string(rotated), "rope in this architecture is");
  LatentSpec attention = {.rope = Rope::none, .index_pools = true};
  attention.index_epsilon = h.get_float("attention.layer_norm_epsilon", 0);
  RoutingSpec routing = {.normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true};
  if (h.get_int("expert_gating_func", 0) == 0) routing.gate = core::Gate::sigmoid;
  const auto mixer = [&](ValueId x, int64_t il) {
    if (!h.has_attention(il)) return blocks::kimi_delta(b, x, il, 1e-6f);
    const bool own = h.layer_int("attention.indexer.types", il, 1) != 0;
    attention.sees = own ? LatentSpec::AttendedPositions::own_choice : LatentSpec::AttendedPositions::last_choice;
    if (!own) blocks::skip_indexer(b, il);
    return blocks::latent_attention(b, x, il, attention);
  };
  const auto feed_forward = [&](ValueId x, int64_t il) {
    const double of_experts = h.layer_float("swiglu_clamp_exp", il, 0),
                 limit = h.layer_float("swiglu_clamp_shexp", il, of_experts);
    ActivationSpec activation;
    activation.activation.limit = static_cast<float>(limit);
    activation.limit_of_experts = static_cast<float>(of_experts);
    return blocks::feed_forward(b, x, il, routing, activation);
  };
  b.build({.mixer = mixer, .ffn = feed_forward, .hyper_connections = HyperConnections::mixing});
}

constinit const ArchitectureFile arch::glm5_next = {.build = build};

} // namespace ridge::models
