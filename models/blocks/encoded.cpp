// Cross-attention. Keys and values of the encoder's output are computed once; the decoder's Program only reads them.
#include "models/blocks/blocks.h"

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;

core::KvLayer encoded_cache(const Builder& b, int64_t il) {
  return {b.hparams().kv_heads(il), b.hparams().k_dim(il), b.hparams().v_dim(il)};
}

void share_caches(Builder& b, int64_t encoder_layers, int64_t decoder_layers) {
  for (int64_t il = 0; il < decoder_layers; ++il) b.program().kv_layers.push_back(encoded_cache(b, il));
  b.shared().encoded_caches = decoder_layers + std::max(encoder_layers, decoder_layers);
  b.program().has_token_coordinates = !b.encodes(); // Batch::block_ends gives the text's length
}

void store_encoded(Builder& b, ValueId encoded, int64_t decoder_layers) {
  for (int64_t il = 0; il < decoder_layers; ++il) {
    const core::KvLayer& kv = b.program().kv_layers[il];
    const std::string blk = fmt::format("dec.blk.{}.", il);
    const ValueId k = b.linear(encoded, blk + "cross_attn_k", kv.heads * kv.k_dim),
                  v = b.linear(encoded, blk + "cross_attn_v", kv.heads * kv.v_dim);
    b.program().ops.push_back({OpKind::kv_store,
                               b.layer_index(),
                               blk + "cross_kv_store",
                               {k, v},
                               {},
                               {},
                               core::KvParams{static_cast<int32_t>(il)}});
  }
}

ValueId attend_to_encoded(Builder& b, ValueId x, int64_t il) {
  const std::string blk = b.layer_name(il);
  const core::KvLayer& kv = b.program().kv_layers[il];
  const int64_t heads = b.hparams().heads(il);
  for (const char* unused : {"cross_attn_k.weight", "cross_attn_v.weight", "cross_attn_rel_b.weight"})
    b.skip(blk + unused);
  const ValueId q = b.linear(x, blk + "cross_attn_q", heads * kv.k_dim);
  // Every token is in a block that ends with the text.
  const core::AttentionParams params = {.layer = static_cast<int32_t>(il), .heads = heads, .scale = 1};
  const ValueId attended = b.emit(OpKind::attention, blk + "cross_attention", {q}, heads * kv.v_dim, {}, params);
  return b.linear(attended, blk + "cross_attn_o", b.hparams().width());
}

void skip_stack(Builder& b, std::string_view stack) {
  for (const gguf::Tensor& tensor : b.file().tensors())
    if (tensor.name.starts_with(stack)) b.skip(tensor.name);
}

} // namespace ridge::models::blocks
