// Cross-attention. Keys and values of the encoder's output are computed once; the decoder's Program only reads them.
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::OpKind;
using core::ValueId;

core::KvLayer Builder::encoded_cache(int64_t il) const {
  return {hparams_.kv_heads(il), hparams_.k_dim(il), hparams_.v_dim(il)};
}

void Builder::share_caches(int64_t encoder_layers, int64_t decoder_layers) {
  for (int64_t il = 0; il < decoder_layers; ++il) program_.kv_layers.push_back(encoded_cache(il));
  shared_caches_ = decoder_layers + std::max(encoder_layers, decoder_layers);
  program_.has_token_coordinates = !encodes_; // Batch::block_ends gives the text's length
}

void Builder::store_encoded(ValueId encoded, int64_t decoder_layers) {
  for (int64_t il = 0; il < decoder_layers; ++il) {
    const core::KvLayer& kv = program_.kv_layers[il];
    const std::string blk = fmt::format("dec.blk.{}.", il);
    const ValueId k = linear(encoded, blk + "cross_attn_k", kv.heads * kv.k_dim),
                  v = linear(encoded, blk + "cross_attn_v", kv.heads * kv.v_dim);
    program_.ops.push_back(
        {OpKind::kv_store, layer_, blk + "cross_kv_store", {k, v}, {}, {}, core::KvParams{static_cast<int32_t>(il)}});
  }
}

ValueId Builder::attend_to_encoded(ValueId x, int64_t il) {
  const std::string blk = layer_name(il);
  const core::KvLayer& kv = program_.kv_layers[il];
  const int64_t heads = hparams_.heads(il);
  for (const char* unused : {"cross_attn_k.weight", "cross_attn_v.weight", "cross_attn_rel_b.weight"})
    skip(blk + unused);
  const ValueId q = linear(x, blk + "cross_attn_q", heads * kv.k_dim);
  // Every token is in a block that ends with the text.
  const core::AttentionParams params = {.layer = static_cast<int32_t>(il), .heads = heads, .scale = 1};
  const ValueId attended = emit(OpKind::attention, blk + "cross_attention", {q}, heads * kv.v_dim, {}, params);
  return linear(attended, blk + "cross_attn_o", hparams_.width());
}

void Builder::skip_stack(std::string_view stack) {
  for (const gguf::Tensor& tensor : file_.tensors())
    if (tensor.name.starts_with(stack)) skip(tensor.name);
}

} // namespace ridge::models
