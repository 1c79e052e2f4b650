// Indexers: small heads score the earlier positions, and a token attends to the best ones.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <algorithm>

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;

ValueId best_positions(Builder& b, ValueId queries, ValueId weights, ValueId key, const std::string& blk, int64_t span,
                       int64_t most, core::IndexParams params) {
  params.layer = static_cast<int32_t>(b.program().kv_layers.size());
  b.program().kv_layers.push_back({1, b.width_of(key), 0, true, span});
  b.program().ops.push_back(
      {OpKind::index_store, b.layer_index(), blk + "index_store", {key}, {}, {}, core::KvParams{params.layer}});
  const ValueId chosen = b.value(blk + "index_choice", most, false, core::ValueKind::i32);
  b.program().ops.push_back(
      {OpKind::index_choice, b.layer_index(), blk + "index_choice", {queries, weights}, {chosen}, {}, params});
  return chosen;
}

static ValueId mean_keys(Builder& b, ValueId keys, const std::string& blk, int64_t kernel) {
  if (kernel == 1) return keys;
  const int64_t dim = b.width_of(keys);
  const int32_t state = new_state(b, blk + "index_mean", (kernel - 1) * dim);
  return b.emit(OpKind::conv1d, blk + "index_mean", {keys}, dim,
                {b.constant(blk + "index_mean", kernel, 1 / static_cast<float>(kernel), dim)},
                core::ConvParams{state, kernel, core::Activation::identity});
}

// A block's key is the normed mean of its keys, rotated by the block's first position. The last, incomplete block is
// always selected.
std::optional<ValueId> chosen_blocks(Builder& b, ValueId x, int64_t il, const AttentionSpec& attention) {
  constexpr std::string_view kRatios = "attention.compress_ratios";
  const Hparams& h = b.hparams();
  const std::string blk = b.layer_name(il), q_norm = blk + "indexer.q_norm", k_norm = blk + "indexer.k_norm";
  const int64_t ratio = h.layer_int(kRatios, il, 0);
  if (ratio < 0 || ratio > 256) h.refuse(kRatios, std::to_string(ratio), "indexers over more than 256 positions are");
  if (ratio == 0) {
    for (const char* unused : {"q_proj", "k_proj", "q_norm", "k_norm"})
      b.skip(fmt::format("{}indexer.{}.weight", blk, unused));
    return std::nullopt;
  }
  const int64_t heads = h.positive_int("attention.indexer.head_count", kMaxHeads),
                dim = h.positive_int("attention.indexer.key_length", kMaxHeadDim),
                top = h.positive_int("attention.indexer.top_k", kMaxContext);
  AttentionSpec of_heads = attention;
  of_heads.k_dim = dim;
  of_heads.rope_dims = h.rope_dims(h.k_dim(il));
  if (*of_heads.rope_dims > dim)
    throw_error("{}: {} rotated dimensions are more than the {} of {}", b.file().path(), *of_heads.rope_dims, dim,
                h.key("attention.indexer.key_length"));
  AttentionSpec of_blocks = of_heads;
  of_blocks.rope_axes = RopeAxes::one;
  of_blocks.rope_span = static_cast<int32_t>(ratio);
  const ValueId queries = rope(b, b.group_norm(b.linear(x, blk + "indexer.q_proj", heads * dim), q_norm, dim),
                               blk + "index_q_rope", of_heads);
  const ValueId means = mean_keys(b, b.linear(x, blk + "indexer.k_proj", dim), blk, ratio);
  const ValueId key = rope(b, b.group_norm(means, k_norm, dim), blk + "index_k_rope", of_blocks);
  const int64_t most = std::min(top, h.context()) + ratio - 1;
  return best_positions(b, queries, queries, key, blk, ratio, most,
                        {.heads = heads, .tail = true, .unweighted = true, .chooses_positions = true});
}

} // namespace ridge::models::blocks
