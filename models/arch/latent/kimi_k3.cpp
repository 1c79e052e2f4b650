// Kimi K3. Every few layers the residual stream is saved and restarted; a part's input is a weighted mean of all.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  const int64_t every = h.get_int("attn_res.block_size", 0);
  if (every < 0) h.refuse("attn_res.block_size", std::to_string(every), "blocks of this size are");
  const RoutingSpec routing = {
      .normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true, .latent = true};
  ActivationSpec activation;
  activation.situ_cap = static_cast<float>(h.get_float("activation.situ_beta", 0));
  activation.situ_up_cap = static_cast<float>(h.get_float("activation.situ_linear_beta", 0));
  if (!(activation.situ_cap > 0))
    h.refuse("activation.situ_beta", fmt::format("{}", activation.situ_cap), "caps of this size are");

  std::optional<ValueId> kept;
  const auto mean = [&](ValueId x, const std::string& scores) {
    return kept ? blocks::mix_residuals(b, *kept, x, scores) : x;
  };
  ValueId x = b.embed();
  for (int64_t il = 0; il < h.layers(); ++il) {
    const std::string blk = b.begin_layer(il);
    if (!kept) b.skip(blk + "attn_res_score.weight");
    const ValueId input = b.rms_norm(mean(x, blk + "attn_res_score"), blk + "attn_norm");
    const LatentSpec attention = {.rope = Rope::none, .gate = b.has(blk + "attn_gate.weight")};
    const ValueId mixed = h.has_attention(il) ? blocks::latent_attention(b, input, il, attention)
                                              : blocks::kimi_delta(b, input, il, h.norm_epsilon());
    const bool keeps = every > 0 && il % every == 0;
    if (keeps) kept = blocks::keep_residual(b, kept, x, blk + "kept");
    x = keeps ? mixed : b.add(x, mixed, blk + "attn_add");
    if (il + 1 == h.layers()) {
      x = b.gather(x);
      if (kept) kept = b.gather(*kept);
    }
    const ValueId ffn_input = b.rms_norm(mean(x, blk + "ffn_res_score"), blk + "ffn_norm");
    x = b.add(x, blocks::feed_forward(b, ffn_input, il, routing, activation), blk + "ffn_add");
  }
  b.logits(mean(x, "output_res_score"));
}

constinit const ArchitectureFile arch::kimi_k3 = {.build = build};

} // namespace ridge::models
