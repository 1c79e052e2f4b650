// LFM 2 and 2.5. The final norm is named like an embedding norm.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

template <bool moe>
static void build(Builder& b) {
  const Hparams& h = b.hparams();
  AttentionSpec attention = {.rope = Rope::split, .qk_norm = true};
  if (!moe) attention.window = h.get_int("attention.sliding_window", 0);
  b.build(
      {.mixer =
           [&](ValueId x, int64_t il) {
             return h.has_attention(il) ? blocks::attention(b, x, il, attention) : blocks::short_conv(b, x, il);
           },
       .ffn = [&](ValueId x,
                  int64_t il) { return blocks::feed_forward(b, x, il, {.normalize = true, .selection_bias = true}); },
       .output_norm = "token_embd_norm"});
}

static constexpr FieldRule kFields[] = {
    {"shortconv.l_cache", Kind::count, "conv_L_cache", 3},
    {"leading_dense_block_count", Kind::count, "num_dense_layers", 0, Only::experts},
    {"expert_gating_func", Kind::count, "2", {}, Only::experts}, // sigmoid
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", {}, Only::experts}};
static constexpr FixedField kFixed[] = {{"norm_topk_prob", 1, 1, Only::experts}};

static constexpr Checkpoint kCheckpoint = {.fields = kFields, .fixed = kFixed, .layers = {.kv_heads = true}};
constinit const ArchitectureFile arch::lfm2 = {.build = build<false>, .checkpoint = kCheckpoint};
constinit const ArchitectureFile arch::lfm2_moe = {.build = build<true>, .checkpoint = kCheckpoint};

} // namespace ridge::models
