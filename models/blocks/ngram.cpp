// n-gram embeddings: rows of a hashed table for the last tokens are added to the residual streams through gates.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::models::blocks {

using core::Activation;
using core::OpKind;
using core::ValueId;
using core::WeightId;

constexpr int64_t kMaxNgramHeads = 256;
constexpr int64_t kExactTokens = 1 << 24; // largest exact range in f32, the type of states

// In the layout of core/host_device/ngram.h.
static WeightId ngram_hash(Builder& b, const core::NgramParams& params, int64_t table_rows) {
  const Hparams& h = b.hparams();
  const std::vector<int64_t> factors = h.ints("ple.layer_multipliers", params.length),
                             first = h.ints("ple.head_offsets", params.heads()),
                             rows = h.ints("ple.head_vocab_sizes", params.heads());
  std::vector<int32_t> hash;
  for (const int64_t factor : factors) {
    hash.push_back(static_cast<int32_t>(factor));
    hash.push_back(static_cast<int32_t>(factor >> 32));
  }
  for (int64_t head = 0; head < params.heads(); ++head) {
    if (first[head] < 0 || rows[head] < 1 || first[head] > table_rows || rows[head] > table_rows - first[head])
      throw_error("{}: {} rows starting at {} for n-gram head {}, but per_layer_token_embd.weight has {}",
                  b.file().path(), rows[head], first[head], head, table_rows);
    hash.push_back(static_cast<int32_t>(first[head]));
    hash.push_back(static_cast<int32_t>(rows[head]));
  }
  return b.integers("ngram hash", hash);
}

static ValueId ngram_embedding(Builder& b, const std::string& blk) {
  const Hparams& h = b.hparams();
  constexpr std::string_view kLength = "ple.ngram_size";
  const int64_t length = h.positive_int(kLength, core::kMaxNgram), end = h.get_int("ple.eos_token_id"),
                per_length = h.positive_int("ple.heads_per_ngram", kMaxNgramHeads),
                width = h.positive_int("embedding_length_per_layer_input", kMaxWidth);
  if (length < 2) throw_error("{}: {} is {}, expected at least 2", b.file().path(), h.key(kLength), length);
  if (end < 0 || end >= kExactTokens || b.program().vocab >= kExactTokens)
    h.refuse("ple.eos_token_id", std::to_string(end), "n-grams over a vocabulary of this size are");
  const std::string table = "per_layer_token_embd.weight";
  const gguf::Tensor* tensor = b.file().find_tensor(table);
  const int64_t rows = tensor ? tensor->dims[1] : 1;
  if (rows > std::numeric_limits<int32_t>::max())
    throw_error("{}: tensor {} has {} rows, which exceed 32-bit row numbers", b.file().path(), table, rows);
  const core::NgramParams params = {new_state(b, blk + "ngram", length - 1), length, per_length,
                                    static_cast<int32_t>(end)};
  const ValueId out = b.value(blk + "ngram_embed", params.heads() * width, false),
                chosen = b.value(blk + "ngram_rows", params.heads(), false, core::ValueKind::i32);
  b.program().ops.push_back({OpKind::ngram_embed,
                             b.layer_index(),
                             blk + "ngram_embed",
                             {},
                             {out, chosen},
                             {b.weight(table, width, rows), ngram_hash(b, params, rows)},
                             params});
  return out;
}

static ValueId dilated_conv(Builder& b, ValueId x, const std::string& tensor, int64_t kernel, int64_t dilation) {
  const int64_t channels = b.width_of(x), reach = std::max<int64_t>((kernel - 1) * dilation + 1, 2);
  const core::Weight taps = b.tensor_weight(tensor + ".weight", kernel, channels, 1);
  std::vector<float> given(kernel), all(channels * reach);
  for (int64_t channel = 0; channel < channels; ++channel) {
    quant::find_format(taps.type)->decode(taps.row(channel), kernel, given.data());
    for (int64_t i = 0; i < kernel; ++i) all[(channel + 1) * reach - 1 - i * dilation] = given[kernel - 1 - i];
  }
  const int32_t state = new_state(b, tensor, (reach - 1) * channels);
  return b.emit(OpKind::conv1d, tensor, {x}, channels, {b.constant(tensor + " taps", all, channels)},
                core::ConvParams{state, reach, Activation::silu});
}

ValueId add_ngrams(Builder& b, ValueId streams, int64_t il) {
  constexpr std::string_view kKernel = "ple.conv_kernel";
  const std::vector<int64_t> layers = b.hparams().all_ints("ple.layers");
  if (layers.size() > 1)
    b.hparams().refuse("ple.layers", fmt::format("{} layers", layers.size()), "n-grams in more than one layer are");
  if (!std::ranges::count(layers, il)) return streams;
  const std::string blk = b.layer_name(il);
  const int64_t width = b.hparams().width(), all = b.width_of(streams), count = all / width;
  const ValueId embedding = ngram_embedding(b, blk);
  const ValueId key = b.group_norm(b.linear(embedding, blk + "ple_key", all), blk + "ple_norm_key", width),
                query = b.group_norm(streams, blk + "ple_norm_query", width);
  // Dot products per stream, as a matrix of ones.
  std::vector<float> sums(count * all);
  for (int64_t i = 0; i < all; ++i) sums[i / width * all + i] = 1 / std::sqrt(static_cast<float>(width));
  const ValueId gates =
      b.emit(OpKind::linear, blk + "ple_dot", {glu(b, Activation::identity, key, query, blk + "ple_products")}, count,
             {b.constant(blk + "ple_dot", sums, count)});
  const ValueId values = repeated(b, b.linear(embedding, blk + "ple_value", width), blk + "ple_values", count);
  const ValueId gated = glu(b, Activation::root_sigmoid, gates, values, blk + "ple_gate");
  const int64_t kernel = b.hparams().positive_int(kKernel, 64), length = b.hparams().get_int("ple.ngram_size");
  if ((kernel - 1) * length >= 256)
    b.hparams().refuse(kKernel, std::to_string(kernel), "convolutions over more than 256 tokens are");
  const ValueId convolved =
      dilated_conv(b, b.group_norm(gated, blk + "ple_norm_conv", width), blk + "ple_conv1d", kernel, length);
  return b.add(streams, b.add(gated, convolved, blk + "ple_sum"), blk + "ple_add");
}

} // namespace ridge::models::blocks
