// Random Programs with rare kinds of attention.
#pragma once

#include "support/random_program.h"

#include <functional>
#include <vector>

namespace ridge::tests {

// Non-causal attention, distance biases, centered convolutions, embedding biases.
inline void for_each_encoder_op(uint64_t seed, const std::function<void(RandomProgram&)>& check) {
  using core::OpKind;
  using quant::Type;
  const auto attention = [&](core::AttentionParams params, uint64_t convolution = 0) {
    RandomProgram m(seed + convolution);
    const int64_t k_dim = m.integer(1, 70), v_dim = m.integer(1, 70), kv_heads = m.integer(1, 3);
    const int64_t heads = kv_heads * m.integer(1, 9);
    m.program.kv_layers.push_back({kv_heads, k_dim, v_dim});
    core::ValueId x =
        m.op(OpKind::embed, {}, {m.weight(Type::F32, 16, 30), m.factors(16, -1, 1)}, 16, core::EmbedParams{2});
    if (convolution > 0) {
      const int64_t kernel = m.integer(2, 9);
      m.program.states.push_back({"conv", (kernel - 1) * 16});
      x = m.op(OpKind::conv1d, {x}, {m.weight(Type::F32, kernel, 16), m.factors(16, -1, 1)}, 16,
               core::ConvParams{0, kernel, core::Activation::silu, m.integer(1, kernel - 1)});
    }
    m.program.vocab = 30;
    m.op(OpKind::kv_store, {m.linear(x, Type::F32, kv_heads * k_dim), m.linear(x, Type::F32, kv_heads * v_dim)}, {}, 0,
         core::KvParams{0});
    const core::ValueId q = m.linear(x, Type::F32, heads * k_dim);
    std::vector<core::WeightId> weights;
    if (params.reach > 0) weights.push_back(m.factors(heads * (2 * params.reach + 1), -2, 2));
    params.heads = heads;
    m.finish(m.op(OpKind::attention, {q}, weights, heads * v_dim, params));
    check(m);
  };
  const auto params = [](int64_t window, float soft_cap, float max_bias, bool causal, int64_t reach) {
    return core::AttentionParams{0, 0, 0.3f, window, false, soft_cap, max_bias, causal, reach};
  };
  for (const int64_t window : {0, 1, 5, 40}) attention(params(window, 0, 0, false, 0));
  attention(params(0, 0, 8, false, 0));
  attention(params(0, 0, 0, false, 9));
  attention(params(7, 2, 3, false, 200));
  attention(params(0, 0, 0, true, 4));
  for (const uint64_t convolution : {1, 2, 3, 4}) attention(params(0, 0, 0, false, 0), convolution);
}

// The embeddings of a token and of its position, added: all rows differ.
inline core::ValueId embed_places(RandomProgram& m, int64_t width, int64_t tokens, int64_t places) {
  const core::ValueId token = m.embed(quant::Type::F32, width, tokens);
  const core::ValueId place =
      m.op(core::OpKind::embed, {}, {m.weight(quant::Type::F32, width, places)}, width, core::EmbedParams{1, true});
  return m.op(core::OpKind::add, {token, place}, {}, width);
}

// Stores keys of x in an index cache, whose k_dim and span kv_layers[layer] has, and chooses up to `most` positions.
inline core::ValueId choose_positions(RandomProgram& m, core::ValueId x, int32_t layer, int64_t heads, int64_t most,
                                      bool tail = false) {
  const int64_t dim = m.program.kv_layers[static_cast<size_t>(layer)].k_dim;
  m.op(core::OpKind::index_store, {m.linear(x, quant::Type::F32, dim)}, {}, 0, core::KvParams{layer});
  const core::ValueId queries = m.linear(x, quant::Type::F32, heads * dim),
                      weights = m.linear(x, quant::Type::F32, heads);
  const core::ValueId chosen = m.value(most, false, core::ValueKind::i32);
  m.program.ops.push_back({core::OpKind::index_choice,
                           -1,
                           "choice",
                           {queries, weights},
                           {chosen},
                           {},
                           core::IndexParams{layer, heads, tail}});
  return chosen;
}

// Scores are exact integers in any summation order, with many ties.
inline void build_sparse_attention(RandomProgram& m, int64_t most, int64_t span, bool ties, int64_t context) {
  using core::OpKind;
  constexpr quant::Type kType = quant::Type::F32;
  const int64_t k_dim = m.integer(1, 70), v_dim = m.integer(1, 70), kv_heads = m.integer(1, 3);
  const int64_t heads = kv_heads * m.integer(1, 9), index_heads = ties ? 1 : m.integer(4, 9);
  const int64_t index_dim = ties ? 1 : m.integer(2, 8);
  m.program.kv_layers = {{1, index_dim, 0, true, span}, {kv_heads, k_dim, v_dim}};
  m.program.vocab = 30;
  const core::ValueId token = m.op(OpKind::embed, {}, {m.whole_numbers(16, 30)}, 16);
  const core::ValueId place = m.op(OpKind::embed, {}, {m.whole_numbers(16, context)}, 16, core::EmbedParams{1, true});
  const core::ValueId x = m.op(OpKind::add, {token, place}, {}, 16);
  const auto whole = [&](int64_t width) { return m.op(OpKind::linear, {x}, {m.whole_numbers(16, width)}, width); };
  m.op(OpKind::index_store, {whole(index_dim)}, {}, 0, core::KvParams{0});
  m.op(OpKind::kv_store, {m.linear(x, kType, kv_heads * k_dim), m.linear(x, kType, kv_heads * v_dim)}, {}, 0,
       core::KvParams{1});
  const core::ValueId index = whole(index_heads * index_dim), chosen = m.value(most, false, core::ValueKind::i32);
  m.program.ops.push_back({OpKind::index_choice,
                           -1,
                           "choice",
                           {index, index},
                           {chosen},
                           {},
                           core::IndexParams{0, index_heads, true, true, true}});
  const core::ValueId q = m.linear(x, kType, heads * k_dim);
  m.finish(m.op(OpKind::sparse_attention, {q, chosen}, {}, heads * v_dim, core::AttentionParams{1, heads, 0.3f}));
}

} // namespace ridge::tests
