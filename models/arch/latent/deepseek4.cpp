// DeepSeek V4 Flash and Pro.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  const int64_t by_table = h.get_int("hash_layer_count", 0);
  RoutingSpec routing = {.normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true};
  const auto feed_forward = [&](ValueId x, int64_t il) {
    const double of_experts = h.layer_float("swiglu_clamp_exp", il, 0);
    ActivationSpec activation;
    activation.activation.limit = static_cast<float>(h.layer_float("swiglu_clamp_shexp", il, of_experts));
    activation.limit_of_experts = static_cast<float>(of_experts);
    routing.by_token = il < by_table;
    b.skip(fmt::format("blk.{}.exp_probs_b_vl.bias", il));
    return blocks::experts(b, x, il, routing, activation);
  };
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::compressed_attention(b, x, il); },
           .ffn = feed_forward,
           .hyper_connections = HyperConnections::mixing_to_gates});
}

constinit const ArchitectureFile arch::deepseek4 = {.build = build};

} // namespace ridge::models
