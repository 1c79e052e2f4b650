// Attention of DeepSeek V4. Heads share one row per position as key and value. A token sees recent positions and
// compressed entries: one per 4 positions, selected by an indexer, or one per 128. An entry is a softmax-gated mean of
// rows; with 4, also of the previous 4. The end of a head is rotated, and outputs are rotated back, because values are
// rotated, too.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <algorithm>
#include <cmath>

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;
using core::WeightId;

namespace {

constexpr int64_t kFine = 4, kCoarse = 128;

} // namespace

// Rotates the first elements of each head, forward or back, without YaRN's magnitude.
static ValueId rotated_by_position(Builder& b, ValueId x, const std::string& name, const AttentionSpec& spec,
                                   bool back = false) {
  int32_t table = rope_table(b, spec);
  b.program().rope_tables[table].magnitude = 1;
  if (back) {
    const auto [at, is_new] =
        b.shared().tables_back.try_emplace(table, static_cast<int32_t>(b.program().rope_tables.size()));
    if (is_new) {
      core::RopeTable other = b.program().rope_tables[table];
      for (std::vector<float>* frequencies : {&other.inverse_frequency, &other.long_inverse_frequency})
        for (float& frequency : *frequencies) frequency = -frequency;
      b.program().rope_tables.push_back(std::move(other));
    }
    table = at->second;
  }
  return b.emit(OpKind::rope, name, {x}, b.width_of(x), {},
                core::RopeParams{table, b.width_of(x) / *spec.k_dim, *spec.k_dim});
}

// Means of `ratio` positions, normed and rotated by the first position; the rotated part comes first.
static ValueId compressed(Builder& b, ValueId x, const std::string& tensor, const AttentionSpec& spec, int64_t ratio) {
  const bool overlaps = ratio == kFine;
  const int64_t dim = *spec.k_dim, width = overlaps ? 2 * dim : dim, kernel = overlaps ? 2 * ratio : ratio;
  const ValueId rows = b.linear(x, tensor + "_kv", width), gates = b.linear(x, tensor + "_gate", width);
  const WeightId bias = b.flat_vector(tensor + "_ape.weight", ratio * width);
  const int32_t state = new_state(b, tensor, 2 * (kernel - 1) * width);
  const ValueId mean =
      b.emit(OpKind::pool, tensor, {rows, gates}, dim, {bias}, core::PoolParams{state, kernel, overlaps});
  AttentionSpec at_first = spec;
  at_first.rope_span = static_cast<int32_t>(ratio);
  return rotated_by_position(b,
                             last_first(b, b.rms_norm(mean, tensor + "_norm"), tensor + "_order", dim, *spec.rope_dims),
                             tensor + "_rope", at_first);
}

ValueId compressed_attention(Builder& b, ValueId x, int64_t il) {
  constexpr std::string_view kRatios = "attention.compress_ratios";
  const Hparams& h = b.hparams();
  const std::string blk = b.layer_name(il);
  const int64_t heads = h.heads(il), dim = h.k_dim(il), rotated = h.rope_dims(dim),
                groups = h.positive_int("attention.output_group_count", kMaxHeads),
                rank = h.positive_int("attention.output_lora_rank", kMaxWidth), ratio = h.layer_int(kRatios, il);
  if (ratio != 0 && ratio != kFine && ratio != kCoarse)
    h.refuse(kRatios, std::to_string(ratio), "ratios other than 0, 4 and 128 are");
  if (heads % groups != 0) throw_error("{}: {} heads do not divide into {} groups", b.file().path(), heads, groups);
  AttentionSpec spec = {
      .rope = Rope::adjacent, .k_dim = dim, .rope_dims = rotated, .rope_scaling = ratio > 0, .rope_factors = false};
  if (ratio > 0) spec.rope_base = h.get_float("attention.compress_rope_freq_base", 160000);
  const auto rotated_first = [&](ValueId value, const std::string& name, const AttentionSpec& of) {
    return rotated_by_position(b, last_first(b, value, blk + name + "_order", *of.k_dim, rotated), blk + name + "_rope",
                               of);
  };
  const ValueId narrow = b.rms_norm(b.linear(x, blk + "attn_q_a", h.positive_int("attention.q_lora_rank", kMaxWidth)),
                                    blk + "attn_q_a_norm");
  const ValueId q =
      rotated_first(b.unit_norm(b.linear(narrow, blk + "attn_q_b", heads * dim), blk + "q_norm", dim), "q", spec);
  const ValueId row = rotated_first(b.rms_norm(b.linear(x, blk + "attn_kv", dim), blk + "attn_kv_a_norm"), "kv", spec);
  const auto layer = static_cast<int32_t>(b.program().kv_layers.size());
  b.program().kv_layers.push_back({1, dim, dim, true});
  b.program().ops.push_back(
      {OpKind::latent_store, b.layer_index(), blk + "kv_store", {row, row}, {}, {}, core::KvParams{layer}});
  const std::vector<WeightId> sinks = {b.vector(blk + "attn_sinks.weight", heads)};
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  ValueId y;
  if (ratio == 0) {
    const int64_t window = h.window() < h.context() ? h.window() : 0;
    y = b.emit(OpKind::latent_attention, blk + "attention", {q, q}, heads * dim, sinks,
               core::AttentionParams{layer, heads, scale, window});
  } else {
    const auto entries = static_cast<int32_t>(b.program().kv_layers.size());
    b.program().kv_layers.push_back({1, dim, 0, true, ratio});
    b.program().ops.push_back({OpKind::index_store,
                               b.layer_index(),
                               blk + "entry_store",
                               {compressed(b, x, blk + "attn_compressor", spec, ratio)},
                               {},
                               {},
                               core::KvParams{entries}});
    ValueId seen = q;
    if (ratio == kFine) {
      AttentionSpec of_index = spec;
      of_index.k_dim = h.positive_int("attention.indexer.key_length", kMaxHeadDim);
      const int64_t index_heads = h.positive_int("attention.indexer.head_count", kMaxHeads),
                    top = h.positive_int("attention.indexer.top_k", kMaxContext);
      if (rotated > *of_index.k_dim)
        throw_error("{}: {} rotated dimensions are more than the {} of {}", b.file().path(), rotated, *of_index.k_dim,
                    h.key("attention.indexer.key_length"));
      const ValueId queries =
          rotated_first(b.linear(narrow, blk + "indexer.attn_q_b", index_heads * *of_index.k_dim), "index_q", of_index);
      const ValueId shares = b.linear(x, blk + "indexer.proj", index_heads);
      const ValueId key = compressed(b, x, blk + "indexer_compressor", of_index, ratio);
      seen = best_positions(b, queries, shares, key, blk, ratio,
                            std::min(top, std::max<int64_t>(1, h.context() / ratio)) * ratio, {.heads = index_heads});
    }
    y = b.emit(OpKind::mixed_attention, blk + "attention", {q, seen}, heads * dim, sinks,
               core::MixedParams{layer, entries, heads, scale, h.window()});
  }
  y = last_first(b, rotated_by_position(b, y, blk + "attention_back", spec, true), blk + "attention_order", dim,
                 dim - rotated);
  const ValueId ids = b.value(blk + "group_ids", groups, false, core::ValueKind::i32);
  b.program().ops.push_back({OpKind::head_ids, b.layer_index(), blk + "group_ids", {}, {ids}, {}, {}});
  const std::string first = blk + "attn_output_a.weight";
  const gguf::Tensor* matrices = b.file().find_tensor(first);
  const int64_t cols = heads / groups * dim;
  const bool flat = matrices && groups > 1 && matrices->dims[1] == groups * rank;
  const WeightId a = flat ? b.add_weight(head_rows(b, first, cols, groups * rank, groups, 0, rank))
                          : b.weight(first, cols, rank, groups);
  y = b.emit(OpKind::expert_linear, blk + "attn_output_a", {y, ids}, groups * rank, {a}, core::ExpertParams{groups});
  return b.linear(y, blk + "attn_output_b", h.width());
}

} // namespace ridge::models::blocks
