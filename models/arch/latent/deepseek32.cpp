// DeepSeek V3.2 and GLM-5 to 5.2: DeepSeek V3 with an indexer, whose selection GLM-5.2 mostly reuses across layers.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

template <bool glm>
static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  // The converter stores a tenth of the multiplier.
  LatentSpec attention = blocks::latent_spec(b, glm ? 0 : h.get_float("rope.scaling.yarn_log_multiplier", 0) / 0.1, 1);
  attention.index_rope = glm ? Rope::adjacent : Rope::split;
  attention.index_epsilon = glm ? 0 : 1e-6;
  RoutingSpec routing = {.normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true};
  if (glm && h.get_int("expert_gating_func", 0) == 0) routing.gate = core::Gate::sigmoid;
  constexpr int64_t kContextOfGlm52 = 1 << 20;
  const auto sees = [&](int64_t il) {
    if (il >= h.layers()) return LatentSpec::AttendedPositions::all;
    const bool by_default = !glm || h.context() < kContextOfGlm52 || il < 2 || (il - 2) % 4 == 0;
    const bool has_indexer = glm ? h.layer_int("attention.indexer.types", il, by_default) != 0 : by_default;
    return has_indexer ? LatentSpec::AttendedPositions::own_choice : LatentSpec::AttendedPositions::last_choice;
  };
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 attention.sees = sees(il);
                 if (attention.sees != LatentSpec::AttendedPositions::own_choice) blocks::skip_indexer(b, il);
                 return blocks::latent_attention(b, x, il, attention);
               },
           .ffn = [&](ValueId x, int64_t il) { return blocks::feed_forward(b, x, il, routing); },
           .drafts = Drafts::normed});
}

constinit const ArchitectureFile arch::deepseek32 = {.build = build<false>};
constinit const ArchitectureFile arch::glm5 = {.build = build<true>};

} // namespace ridge::models
