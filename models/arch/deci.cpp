// DeciLM and pruned Llamas (Nemotron Super 49B, Ultra 253B).
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static ValueId mixer(Builder& b, ValueId x, int64_t il, const std::string& blk) {
  const ValueId normed = b.rms_norm(x, blk + "attn_norm");
  const ValueId mixed = b.hparams().has_attention(il)
                            ? blocks::attention(b, normed, il, {.rope = Rope::adjacent})
                            : b.linear(normed, blk + "attn_output", b.hparams().width(), false);
  return b.add(x, mixed, blk + "attn_add");
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId x = b.embed();
  for (int64_t il = 0; il < h.layers(); ++il) {
    const std::string blk = b.begin_layer(il);
    const bool empty = h.layer_int("feed_forward_length", il) == 0, mixes = h.layer_int("attention.head_count", il) > 0;
    // Attention without a feed-forward part is unused.
    if (empty)
      for (const char* tensor :
           {"attn_norm.weight", "attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias", "attn_v.weight",
            "attn_v.bias", "attn_qkv.weight", "attn_qkv.bias", "attn_output.weight"})
        b.skip(blk + tensor);
    if (empty || !mixes) b.skip(blk + "attn_output.bias");
    if (mixes && !empty) x = mixer(b, x, il, blk);
    if (il + 1 == h.layers()) x = b.gather(x);
    if (!empty) x = b.add(x, blocks::ffn(b, b.rms_norm(x, blk + "ffn_norm"), il), blk + "ffn_add");
  }
  b.logits(x);
}

constinit const ArchitectureFile arch::deci = {.build = build};

} // namespace ridge::models
