// n-gram embeddings: rows of a hashed table for the last tokens are added to the residual streams through gates.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::models {

using core::Activation;
using core::OpKind;
using core::ValueId;
using core::WeightId;

constexpr int64_t kMaxNgramHeads = 256;
constexpr int64_t kExactTokens = 1 << 24; // largest exact range in f32, the type of states

// In the layout of core/host_device/ngram.h.
WeightId Builder::ngram_hash(const core::NgramParams& params, int64_t table_rows) {
  const Hparams& h = hparams_;
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
      throw_error("{}: {} rows starting at {} for n-gram head {}, but per_layer_token_embd.weight has {}", file_.path(),
                  rows[head], first[head], head, table_rows);
    hash.push_back(static_cast<int32_t>(first[head]));
    hash.push_back(static_cast<int32_t>(rows[head]));
  }
  return integers("ngram hash", hash);
}

ValueId Builder::ngram_embedding(const std::string& blk) {
  const Hparams& h = hparams_;
  constexpr std::string_view kLength = "ple.ngram_size";
  const int64_t length = h.positive_int(kLength, core::kMaxNgram), end = h.get_int("ple.eos_token_id"),
                per_length = h.positive_int("ple.heads_per_ngram", kMaxNgramHeads),
                width = h.positive_int("embedding_length_per_layer_input", kMaxWidth);
  if (length < 2) throw_error("{}: {} is {}, expected at least 2", file_.path(), h.key(kLength), length);
  if (end < 0 || end >= kExactTokens || program_.vocab >= kExactTokens)
    h.refuse("ple.eos_token_id", std::to_string(end), "n-grams over a vocabulary of this size are");
  const std::string table = "per_layer_token_embd.weight";
  const gguf::Tensor* tensor = file_.find_tensor(table);
  const int64_t rows = tensor ? tensor->dims[1] : 1;
  if (rows > std::numeric_limits<int32_t>::max())
    throw_error("{}: tensor {} has {} rows, which exceed 32-bit row numbers", file_.path(), table, rows);
  const core::NgramParams params = {new_state(blk + "ngram", length - 1), length, per_length,
                                    static_cast<int32_t>(end)};
  const ValueId out = value(blk + "ngram_embed", params.heads() * width, false),
                chosen = value(blk + "ngram_rows", params.heads(), false, core::ValueKind::i32);
  program_.ops.push_back({OpKind::ngram_embed,
                          layer_,
                          blk + "ngram_embed",
                          {},
                          {out, chosen},
                          {weight(table, width, rows), ngram_hash(params, rows)},
                          params});
  return out;
}

ValueId Builder::dilated_conv(ValueId x, const std::string& tensor, int64_t kernel, int64_t dilation) {
  const int64_t channels = width_of(x), reach = std::max<int64_t>((kernel - 1) * dilation + 1, 2);
  const core::Weight taps = tensor_weight(tensor + ".weight", kernel, channels, 1);
  std::vector<float> given(kernel), all(channels * reach);
  for (int64_t channel = 0; channel < channels; ++channel) {
    quant::find_format(taps.type)->decode(taps.row(channel), kernel, given.data());
    for (int64_t i = 0; i < kernel; ++i) all[(channel + 1) * reach - 1 - i * dilation] = given[kernel - 1 - i];
  }
  const int32_t state = new_state(tensor, (reach - 1) * channels);
  return emit(OpKind::conv1d, tensor, {x}, channels, {constant(tensor + " taps", all, channels)},
              core::ConvParams{state, reach, Activation::silu});
}

ValueId Builder::add_ngrams(ValueId streams, int64_t il) {
  constexpr std::string_view kKernel = "ple.conv_kernel";
  const std::vector<int64_t> layers = hparams_.all_ints("ple.layers");
  if (layers.size() > 1)
    hparams_.refuse("ple.layers", fmt::format("{} layers", layers.size()), "n-grams in more than one layer are");
  if (!std::ranges::count(layers, il)) return streams;
  const std::string blk = layer_name(il);
  const int64_t width = hparams_.width(), all = width_of(streams), count = all / width;
  const ValueId embedding = ngram_embedding(blk);
  const ValueId key = group_norm(linear(embedding, blk + "ple_key", all), blk + "ple_norm_key", width),
                query = group_norm(streams, blk + "ple_norm_query", width);
  // Dot products per stream, as a matrix of ones.
  std::vector<float> sums(count * all);
  for (int64_t i = 0; i < all; ++i) sums[i / width * all + i] = 1 / std::sqrt(static_cast<float>(width));
  const ValueId gates =
      emit(OpKind::linear, blk + "ple_dot", {glu(Activation::identity, key, query, blk + "ple_products")}, count,
           {constant(blk + "ple_dot", sums, count)});
  const ValueId values = repeated(linear(embedding, blk + "ple_value", width), blk + "ple_values", count);
  const ValueId gated = glu(Activation::root_sigmoid, gates, values, blk + "ple_gate");
  const int64_t kernel = hparams_.positive_int(kKernel, 64), length = hparams_.get_int("ple.ngram_size");
  if ((kernel - 1) * length >= 256)
    hparams_.refuse(kKernel, std::to_string(kernel), "convolutions over more than 256 tokens are");
  const ValueId convolved =
      dilated_conv(group_norm(gated, blk + "ple_norm_conv", width), blk + "ple_conv1d", kernel, length);
  return add(streams, add(gated, convolved, blk + "ple_sum"), blk + "ple_add");
}

} // namespace ridge::models
