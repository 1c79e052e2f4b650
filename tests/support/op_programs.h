// Random Programs that cover all ops.
#pragma once

#include "support/attention_programs.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ridge::tests {

// NMSE in exact mode. gelu rounds to f16, so few elements differ by 2^-11.
inline constexpr const char* kGelu = "glu and activate with gelu";
inline double exact_bound(const std::string& name) { return name == kGelu ? 1e-7 : 1e-9; }

// check(name, model).
inline void for_each_op(uint64_t seed, const std::function<void(const std::string&, RandomProgram&)>& check) {
  using core::OpKind;
  using quant::Type;
  const auto with = [&](const char* name, auto&& build) {
    RandomProgram model(seed);
    build(model);
    check(name, model);
  };
  with("embed and linear", [](RandomProgram& m) { m.finish(m.embed(Type::F32, m.integer(1, 70), m.integer(1, 70))); });
  with("bias",
       [](RandomProgram& m) { m.finish(m.linear(m.embed(Type::F16, 33, 50), Type::F16, m.integer(1, 99), true)); });
  with("rms_norm of rows", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 300);
    m.finish(m.norm(m.embed(Type::F32, width, 20), width));
  });
  with("rms_norm of heads", [](RandomProgram& m) {
    const int64_t head = m.integer(1, 40);
    m.finish(m.norm(m.embed(Type::F32, 3 * head, 20), head));
  });
  for (const bool bias : {false, true})
    with("layer_norm", [&](RandomProgram& m) {
      const int64_t groups = m.integer(1, 3), group = m.integer(1, 100), width = groups * group;
      const int64_t weights = m.integer(0, 1) ? group : width;
      std::vector<core::WeightId> both = {m.factors(weights, 0.5, 1.5)};
      if (bias) both.push_back(m.factors(weights, -0.1, 0.1));
      m.finish(m.op(OpKind::layer_norm, {m.embed(Type::F32, width, 20)}, both, width,
                    core::NormParams{1e-5f, group, m.integer(0, 1) == 1}));
    });
  with("position_scale, embed of positions", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 100);
    const core::ValueId x = m.embed(Type::F32, width, 30);
    const core::ValueId at =
        m.op(OpKind::embed, {}, {m.weight(Type::F16, width, 64)}, width, core::EmbedParams{2, true});
    m.finish(m.op(OpKind::position_scale, {m.op(OpKind::add, {x, at}, {}, width)}, {}, width,
                  core::PositionScaleParams{0.3f, m.integer(1, 9), m.integer(0, 3)}));
  });
  for (const bool each : {false, true})
    with("adapter_scale", [&](RandomProgram& m) {
      const int64_t columns = m.integer(1, 40), repeats = each ? m.integer(2, 4) : 1;
      m.program.adapters = {{"one", "one.gguf", 1, 0.7f}, {"two", "two.gguf", 2, 0}, {"three", "three.gguf", 3, -2}};
      core::ValueId x = m.embed(Type::F32, repeats * columns, 30);
      if (!each) x = m.op(OpKind::gather, {x}, {}, columns);
      x = m.op(OpKind::adapter_scale, {x}, {m.factors(columns, 0.5, 2), m.order(columns, 3)}, repeats * columns);
      if (each) return m.finish(x);
      m.program.logits = m.linear(x, Type::F32, m.program.vocab);
      validate(m.program);
    });
  with("clamp, and rows that tokens are given", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 100);
    m.program.has_token_coordinates = true;
    m.program.row_width = 2 * width;
    const core::ValueId x = m.embed(Type::F32, width, 30);
    const core::ValueId given = m.op(OpKind::given, {}, {}, width, core::GivenParams{width});
    m.finish(
        m.op(OpKind::clamp, {m.op(OpKind::add, {x, given}, {}, width)}, {}, width, core::ClampParams{-0.3f, 0.5f}));
  });
  with("rms_norm of long rows", [](RandomProgram& m) {
    const int64_t width = m.integer(300, 3000);
    m.finish(m.norm(m.embed(Type::F32, width, 20), width));
  });
  for (const bool gates_input : {false, true})
    for (const int64_t most : {40, 400, 3000})
      with("rms_norm and a gate", [&](RandomProgram& m) {
        const int64_t head = m.integer(most / 2, most), width = 3 * head;
        const core::ValueId x = m.embed(Type::F32, width, 20), z = m.linear(x, Type::F32, width);
        const auto gated = [&](core::ValueId y) {
          return m.op(OpKind::glu, {z, y}, {}, width, core::ActivationParams{core::Activation::silu});
        };
        m.finish(gates_input ? m.norm(gated(x), head) : gated(m.norm(x, head)));
      });
  for (const core::RopeStyle style : {core::RopeStyle::adjacent, core::RopeStyle::split})
    with("rope", [&](RandomProgram& m) {
      const int64_t pairs = m.integer(1, 20), head_dim = 2 * pairs + m.integer(0, 5);
      m.program.rope_tables.push_back({{}, 1.1f, style});
      m.program.rope_tables[0].span = style == core::RopeStyle::split ? 1 : static_cast<int32_t>(m.integer(1, 5));
      for (int64_t i = 0; i < pairs; ++i)
        m.program.rope_tables[0].inverse_frequency.push_back(1.0f / static_cast<float>(1 + i));
      const core::ValueId x = m.embed(Type::F32, 3 * head_dim, 30);
      m.finish(m.op(OpKind::rope, {x}, {}, 3 * head_dim, core::RopeParams{0, 3, head_dim}));
    });
  const auto attention = [&](core::AttentionParams params, bool sinks) {
    with("attention", [&](RandomProgram& m) {
      const int64_t k_dim = m.integer(1, 70), v_dim = m.integer(1, 70), kv_heads = m.integer(1, 3);
      const int64_t heads = kv_heads * m.integer(1, 9);
      m.program.kv_layers.push_back({kv_heads, k_dim, v_dim});
      const core::ValueId x = m.embed(Type::F32, 16, 30);
      const core::ValueId k = m.linear(x, Type::F32, kv_heads * k_dim), v = m.linear(x, Type::F32, kv_heads * v_dim);
      m.op(OpKind::kv_store, {k, v}, {}, 0, core::KvParams{0});
      const core::ValueId q = m.linear(x, Type::F32, heads * k_dim);
      std::vector<core::WeightId> weights;
      if (sinks) weights.push_back(m.factors(heads, -2, 2));
      params.heads = heads;
      m.finish(m.op(OpKind::attention, {q}, weights, heads * v_dim, params));
    });
  };
  for (const int64_t window : {0, 5, 40}) attention({0, 0, 0.3f, window}, false);
  for (const int64_t window : {3, 16}) attention({0, 0, 0.3f, window, true}, false);
  attention({0, 0, 3.0f, 0, false, 0.5f}, false);
  attention({0, 0, 0.3f, 0, false, 0}, true);
  attention({0, 0, 3.0f, 7, false, 1.5f}, true);
  attention({0, 0, 0.3f, 0, false, 0, 8}, false);
  attention({0, 0, 0.3f, 9, false, 2, 3}, true);
  for (const bool sinks : {false, true})
    for (const int64_t window : {0, 5, 40})
      with("latent attention", [&](RandomProgram& m) {
        const int64_t c_dim = m.integer(1, 70), r_dim = m.integer(1, 20), heads = m.integer(1, 40);
        m.program.kv_layers.push_back({1, c_dim + r_dim, c_dim, true});
        const core::ValueId x = m.embed(Type::F32, 16, 30);
        m.op(OpKind::latent_store, {m.linear(x, Type::F32, c_dim), m.linear(x, Type::F32, r_dim)}, {}, 0,
             core::KvParams{0});
        const core::ValueId q = m.linear(x, Type::F32, heads * c_dim), q_rest = m.linear(x, Type::F32, heads * r_dim);
        std::vector<core::WeightId> weights;
        if (sinks) weights.push_back(m.factors(heads, -2, 2));
        m.finish(m.op(OpKind::latent_attention, {q, q_rest}, weights, heads * c_dim,
                      core::AttentionParams{0, heads, 0.3f, window}));
      });
  with("latent attention without a rest of the keys", [](RandomProgram& m) {
    const int64_t dim = m.integer(1, 70), heads = m.integer(1, 40);
    m.program.kv_layers.push_back({1, dim, dim, true});
    const core::ValueId x = m.embed(Type::F32, 16, 30), c = m.linear(x, Type::F32, dim);
    m.op(OpKind::latent_store, {c, c}, {}, 0, core::KvParams{0});
    const core::ValueId q = m.linear(x, Type::F32, heads * dim);
    m.finish(m.op(OpKind::latent_attention, {q, q}, {}, heads * dim, core::AttentionParams{0, heads, 0.3f}));
  });
  struct Choice {
    int64_t most, span;
    bool tail;
  };
  for (const Choice& choice : {Choice{4, 1, false}, {100, 1, false}, {12, 4, false}, {7, 4, true}, {8, 3, true}})
    with("attention to chosen positions", [&](RandomProgram& m) {
      const int64_t c_dim = m.integer(1, 70), r_dim = m.integer(1, 20), heads = m.integer(1, 20);
      const int64_t index_heads = m.integer(1, 9), index_dim = m.integer(1, 40);
      m.program.kv_layers = {{1, index_dim, 0, true, choice.span}, {1, c_dim + r_dim, c_dim, true}};
      const core::ValueId x = embed_places(m, 16, 30, 64);
      const core::ValueId chosen = choose_positions(m, x, 0, index_heads, choice.most, choice.tail);
      m.op(OpKind::latent_store, {m.linear(x, Type::F32, c_dim), m.linear(x, Type::F32, r_dim)}, {}, 0,
           core::KvParams{1});
      const core::ValueId q = m.linear(x, Type::F32, heads * c_dim), q_rest = m.linear(x, Type::F32, heads * r_dim);
      std::vector<core::WeightId> sinks;
      if (choice.span == 1) sinks.push_back(m.factors(heads, -2, 2));
      m.finish(m.op(OpKind::chosen_attention, {q, q_rest, chosen}, sinks, heads * c_dim,
                    core::AttentionParams{1, heads, 300}));
    });
  for (const bool chooses : {false, true})
    with("attention to the last positions and to entries", [&](RandomProgram& m) {
      const int64_t dim = m.integer(1, 70), heads = m.integer(1, 20), span = m.integer(2, 5), width = m.integer(1, 9);
      const int64_t index_heads = m.integer(1, 5), index_dim = m.integer(1, 30), most = span * m.integer(1, 4);
      m.program.kv_layers = {{1, dim, dim, true}, {1, dim, 0, true, span}, {1, index_dim, 0, true, span}};
      const core::ValueId x = embed_places(m, 16, 30, 64), kv = m.linear(x, Type::F32, dim);
      m.op(OpKind::latent_store, {kv, kv}, {}, 0, core::KvParams{0});
      m.op(OpKind::index_store, {m.linear(x, Type::F32, dim)}, {}, 0, core::KvParams{1});
      const core::ValueId q = m.linear(x, Type::F32, heads * dim);
      core::ValueId chosen = q;
      if (chooses)
        chosen = choose_positions(m, x, 2, index_heads, most);
      else
        m.program.kv_layers.pop_back();
      std::vector<core::WeightId> sinks;
      if (m.integer(0, 1) == 1) sinks.push_back(m.factors(heads, -2, 2));
      m.finish(
          m.op(OpKind::mixed_attention, {q, chosen}, sinks, heads * dim, core::MixedParams{0, 1, heads, 0.3f, width}));
    });
  for (const auto& [most, span] : {std::pair<int64_t, int64_t>{7, 4}, {12, 4}, {19, 4}, {10, 3}, {5, 1}, {100, 4}})
    for (const bool ties : {false, true})
      with("attention of heads to chosen positions",
           [&, most = most, span = span](RandomProgram& m) { build_sparse_attention(m, most, span, ties, 64); });
  for (const int64_t length : {2, 3, 7})
    with("ngram_embed", [&](RandomProgram& m) {
      const core::NgramParams params = {0, length, m.integer(1, 3), static_cast<int32_t>(m.integer(0, 4))};
      const int64_t width = m.integer(1, 40), rows = m.integer(1, 90);
      m.program.states.push_back({"tokens", length - 1});
      const core::ValueId token = m.embed(Type::F32, params.heads() * width, 5);
      std::vector<int32_t> hash;
      for (int64_t i = 0; i < 2 * length; ++i) hash.push_back(static_cast<int32_t>(m.random()));
      for (int64_t head = 0; head < params.heads(); ++head) {
        hash.push_back(static_cast<int32_t>(head * rows));
        hash.push_back(static_cast<int32_t>(m.integer(1, rows)));
      }
      const core::ValueId out = m.value(params.heads() * width),
                          chosen = m.value(params.heads(), false, core::ValueKind::i32);
      m.program.ops.push_back({OpKind::ngram_embed,
                               -1,
                               "ngrams",
                               {},
                               {out, chosen},
                               {m.weight(Type::F16, width, params.heads() * rows), m.integers(hash)},
                               params});
      m.finish(m.op(OpKind::add, {token, out}, {}, params.heads() * width));
    });
  with("a matrix per head", [](RandomProgram& m) {
    const int64_t heads = m.integer(1, 9), cols = m.integer(1, 70), rows = m.integer(1, 70);
    const core::ValueId x = m.linear(m.embed(Type::F32, 16, 30), Type::F32, heads * cols);
    const core::ValueId ids = m.value(heads, false, core::ValueKind::i32);
    m.program.ops.push_back({OpKind::head_ids, -1, "head_ids", {}, {ids}, {}, {}});
    m.finish(m.op(OpKind::expert_linear, {x, ids}, {m.weight(Type::F32, cols, rows, heads)}, heads * rows,
                  core::ExpertParams{heads}));
  });
  with("all_reduce and all_gather of one rank", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 300);
    const core::ValueId sum = m.op(OpKind::all_reduce, {m.linear(m.embed(Type::F32, 16, 30), Type::F32, width)}, {},
                                   width, core::RankParams{});
    m.finish(m.op(OpKind::all_gather, {sum}, {}, width, core::RankParams{}));
  });
  with("concat", [](RandomProgram& m) {
    const int64_t a = m.integer(1, 300), b = m.integer(1, 300);
    const core::ValueId x = m.embed(Type::F32, 16, 30);
    m.finish(m.op(OpKind::concat, {m.linear(x, Type::F32, a), m.linear(x, Type::F32, b)}, {}, a + b));
  });
  with("permute", [](RandomProgram& m) {
    const int64_t group = m.integer(1, 100), groups = m.integer(1, 3), columns = m.integer(1, 100);
    const core::ValueId x = m.embed(Type::F32, groups * group, 30);
    m.finish(m.op(OpKind::permute, {x}, {m.order(columns, group)}, groups * columns, core::PermuteParams{group}));
  });
  using core::Activation;
  for (const core::ActivationParams& params : {core::ActivationParams{Activation::identity, 0.7f},
                                               {Activation::identity, 1, 0.1f},
                                               {Activation::silu},
                                               {Activation::silu, 1.702f, 0.1f, false, 1},
                                               {Activation::silu, 1, 0.1f, true},
                                               {Activation::sigmoid},
                                               {Activation::sigmoid, 0.25f},
                                               {Activation::root_sigmoid},
                                               {Activation::relu},
                                               {Activation::relu_squared},
                                               {Activation::gelu},
                                               {Activation::gelu_erf},
                                               {Activation::soft_cap, 0.2f},
                                               {Activation::softplus},
                                               {Activation::xielu, 0.8f, 0, false, 0, 0.5f, 0.9f, -1e-6f}})
    with(params.kind == Activation::gelu ? kGelu : "glu, activate and add", [&](RandomProgram& m) {
      const int64_t gates = m.integer(1, 30), width = gates * m.integer(1, 4);
      const core::ValueId x = m.embed(Type::F32, 16, 30);
      const core::ValueId gate = m.linear(x, Type::F32, gates), up = m.linear(x, Type::F32, width);
      const core::ValueId gated = m.op(OpKind::glu, {gate, up}, {}, width, params);
      const core::ValueId active = m.op(OpKind::activate, {up}, {}, width, params);
      m.finish(m.op(OpKind::add, {gated, active}, {}, width, core::AddParams{0.7f}));
    });
  with("rms_norm of groups with weights of their own", [](RandomProgram& m) {
    const int64_t group = m.integer(1, 40), width = 3 * group;
    const core::ValueId x = m.embed(Type::F32, width, 20);
    m.finish(m.op(OpKind::rms_norm, {x}, {m.weight(Type::F32, width)}, width, core::NormParams{1e-5f, group}));
  });
  for (const bool bias : {false, true})
    with("conv1d", [&](RandomProgram& m) {
      const int64_t channels = m.integer(1, 600), kernel = m.integer(2, 5);
      m.program.states.push_back({"conv", (kernel - 1) * channels});
      const core::ValueId x = m.embed(Type::F32, channels, 30);
      std::vector<core::WeightId> weights = {m.weight(Type::F32, kernel, channels)};
      if (bias) weights.push_back(m.weight(Type::F32, channels));
      m.finish(m.op(OpKind::conv1d, {x}, weights, channels,
                    core::ConvParams{0, kernel, bias ? core::Activation::silu : core::Activation::identity}));
    });
  constexpr int64_t kDims[] = {16, 32, 64, 128, 256};
  for (const bool neighbors : {false, true})
    with("delta_rule", [&](RandomProgram& m) {
      const int64_t dim = kDims[m.integer(0, 4)], k_heads = m.integer(3, 4), heads = k_heads * m.integer(1, 3);
      m.program.states.push_back({"delta", heads * dim * dim});
      const core::ValueId x = m.embed(Type::F32, 16, 30);
      const core::ValueId qkv = m.linear(x, Type::F32, (2 * k_heads + heads) * dim);
      const core::ValueId alpha = m.linear(x, Type::F32, heads), beta = m.linear(x, Type::F32, heads);
      const core::WeightId a = m.factors(heads, -2, -0.1), dt = m.factors(heads, -1, 1);
      m.finish(m.op(OpKind::delta_rule, {qkv, qkv, qkv, alpha, beta}, {a, dt}, heads * dim,
                    core::DeltaParams{0, k_heads, heads, dim, 1e-6f, neighbors, 0, k_heads * dim, 2 * k_heads * dim}));
    });
  for (const int64_t dim : kDims)
    with("delta_rule with a factor for each element", [&](RandomProgram& m) {
      const int64_t k_heads = m.integer(3, 4), heads = k_heads * m.integer(1, 2);
      m.program.states.push_back({"delta", heads * dim * dim});
      const core::ValueId x = m.embed(Type::F32, 16, 30);
      const core::ValueId q = m.linear(x, Type::F32, k_heads * dim), k = m.linear(x, Type::F32, k_heads * dim + 4),
                          v = m.linear(x, Type::F32, heads * dim);
      const core::ValueId alpha = m.linear(x, Type::F32, heads * dim), beta = m.linear(x, Type::F32, heads);
      const core::WeightId a = m.factors(heads, -2, -0.1), dt = m.factors(heads * dim, -1, 1);
      const float least = m.integer(0, 1) ? -5.0f : 0;
      m.finish(m.op(OpKind::delta_rule, {q, k, v, alpha, beta}, {a, dt}, heads * dim,
                    core::DeltaParams{0, k_heads, heads, dim, 1e-6f, false, 0, 4, 0, least}));
    });
  for (const auto& [kernel, overlaps] :
       {std::pair<int64_t, bool>{2, false}, {4, false}, {11, false}, {150, false}, {8, true}})
    with("pool", [&, kernel = kernel, overlaps = overlaps](RandomProgram& m) {
      const int64_t halves = overlaps ? 2 : 1, channels = halves * m.integer(1, 150);
      m.program.states.push_back({"pool", 2 * (kernel - 1) * channels});
      const core::ValueId x = m.embed(Type::F32, channels, 30), gate = m.linear(x, Type::F32, channels);
      m.finish(m.op(OpKind::pool, {x, gate}, {m.factors(kernel / halves * channels, -1, 1)}, channels / halves,
                    core::PoolParams{0, kernel, overlaps}));
    });
  for (const int64_t count : {1, 2, 4, 9})
    with("hyper-connections", [&](RandomProgram& m) {
      const int64_t width = m.integer(1, 300);
      const core::ValueId x = m.embed(Type::F32, count * width, 30);
      const core::ValueId in = m.value(count), out = m.value((1 + count) * count);
      m.program.ops.push_back({OpKind::hyper_gates,
                               -1,
                               "gates",
                               {m.linear(x, Type::F32, (2 + count) * count)},
                               {in, out},
                               {m.factors(3, -2, 2), m.factors((2 + count) * count, -1, 1)},
                               core::HyperParams{count, m.integer(1, 5), 1e-3f}});
      const core::ValueId block = m.op(OpKind::expert_sum, {x, in}, {}, width, core::ExpertParams{count});
      const core::ValueId joined = m.op(OpKind::hyper_join, {block, x, out}, {}, count * width);
      m.finish(m.op(OpKind::fold, {joined}, {}, width, core::FoldParams{0.3f}));
    });
  for (const int64_t count : {1, 3, 4})
    with("hyper-connections that do not mix", [&](RandomProgram& m) {
      const int64_t width = m.integer(1, 300);
      const core::ValueId x = m.embed(Type::F32, count * width, 30), in = m.value(count), out = m.value(count);
      m.program.ops.push_back({OpKind::hyper_gates,
                               -1,
                               "gates",
                               {m.linear(x, Type::F32, 2 * count)},
                               {in, out},
                               {m.factors(2, -2, 2), m.factors(2 * count, -1, 1)},
                               core::HyperParams{count, 0, 1e-3f, 1.5f, 2e-3f}});
      const core::ValueId block = m.op(OpKind::expert_sum, {x, in}, {}, width, core::ExpertParams{count});
      m.finish(m.op(OpKind::hyper_join, {block, x, out}, {}, count * width));
    });
  with("softmax", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 300);
    m.finish(m.op(OpKind::softmax, {m.embed(Type::F32, width, 30)}, {}, width));
  });
  for (const int64_t count : {1, 3, 4})
    with("residual streams that do not mix", [&](RandomProgram& m) {
      const int64_t width = m.integer(1, 300);
      const core::ValueId x = m.embed(Type::F32, count * width, 30), gates = m.linear(x, Type::F32, count);
      const core::ValueId block = m.op(OpKind::fold, {x}, {}, width, core::FoldParams{0.5f});
      m.finish(m.op(OpKind::hyper_join, {block, x, gates}, {}, count * width));
    });
  for (const bool rate_per_state : {false, true})
    with("scan", [&](RandomProgram& m) {
      const int64_t groups = m.integer(1, 3), heads = groups * m.integer(1, rate_per_state ? 40 : 4);
      const int64_t head_dim = rate_per_state ? 1 : 8 * m.integer(1, 9),
                    states = rate_per_state ? 16 : 16 * m.integer(1, 16);
      const int64_t width = heads * head_dim, shared = groups * states;
      m.program.states.push_back({"scan", width * states});
      const core::ValueId x = m.embed(Type::F32, 16, 30);
      const core::ValueId xbc = m.linear(x, Type::F32, width + 2 * shared), dt = m.linear(x, Type::F32, heads);
      const core::WeightId a = m.factors(rate_per_state ? heads * states : heads, -2, -0.1),
                           d = m.factors(heads, -1, 1), bias = m.factors(heads, -1, 1);
      m.finish(m.op(OpKind::scan, {xbc, xbc, xbc, dt}, {a, d, bias}, width,
                    core::ScanParams{0, heads, head_dim, groups, states, 0, width, width + shared}));
    });
  for (const int64_t dim : {0, 64})
    with("wkv", [&](RandomProgram& m) {
      const int64_t heads = m.integer(1, 5), of_head = dim > 0 ? dim : m.integer(1, 70), width = heads * of_head;
      m.program.states.push_back({"wkv", width * of_head});
      const core::ValueId x = m.embed(Type::F32, 16, 30);
      const auto part = [&] { return m.linear(x, Type::F32, width); };
      const core::ValueId r = part(), k = part(), v = part(), decay = part();
      m.finish(m.op(OpKind::wkv, {r, k, v, decay}, {m.factors(width, -1, 1), m.factors(width, -3, 1)}, width,
                    core::WkvParams{0, heads, of_head}));
    });
  for (const int64_t dim : {0, 64})
    with("wkv7", [&](RandomProgram& m) {
      const int64_t heads = m.integer(1, 5), of_head = dim > 0 ? dim : m.integer(1, 70), width = heads * of_head;
      m.program.states.push_back({"wkv", width * of_head});
      const core::ValueId x = m.embed(Type::F32, 16, 30);
      const auto part = [&] { return m.linear(x, Type::F32, width); };
      const core::ValueId r = part(), decay = part(), k = part(), v = part();
      const float unit = 1 / std::sqrt(static_cast<float>(of_head));
      const core::ValueId direction = m.op(OpKind::rms_norm, {part()}, {m.factors(of_head, unit / 2, unit)}, width,
                                           core::NormParams{1e-6f, of_head});
      const core::ValueId rate =
          m.op(OpKind::activate, {part()}, {}, width, core::ActivationParams{core::Activation::sigmoid});
      m.finish(m.op(OpKind::wkv7, {r, decay, k, v, direction, rate}, {}, width, core::WkvParams{0, heads, of_head}));
    });
  with("several sums of one row", [](RandomProgram& m) {
    const int64_t sums = m.integer(1, 5), used = m.integer(1, 12), width = m.integer(1, 200);
    const core::ValueId x = m.embed(Type::F32, used * width, 20), shares = m.linear(x, Type::F32, sums * used);
    m.finish(m.op(OpKind::expert_sum, {x, shares}, {}, sums * width, core::ExpertParams{used}));
  });
  with("activate with factors", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 300);
    m.finish(m.op(OpKind::activate, {m.embed(Type::F32, width, 20)}, {m.factors(width, -1, 1)}, width,
                  core::ActivationParams{core::Activation::soft_cap, 2}));
  });
  with("experts, a shared one with a gate, and the residual stream", [](RandomProgram& m) {
    RandomProgram::Shape shape;
    shape.hidden = m.integer(1, 80);
    shape.width = m.integer(1, 80);
    shape.experts = m.integer(2, 600);
    shape.used = m.integer(1, std::min<int64_t>(shape.experts, 40));
    shape.equal_scores = m.integer(0, 1) == 1;
    const core::ValueId x = m.embed(Type::F32, shape.width, 30);
    const core::ValueId gate = m.linear(x, Type::F32, 1), shared = m.linear(x, Type::F32, shape.width);
    const core::ValueId gated =
        m.op(OpKind::glu, {gate, shared}, {}, shape.width, core::ActivationParams{core::Activation::sigmoid});
    const core::ValueId sum = m.op(OpKind::add, {m.moe(x, shape, Type::F32), gated}, {}, shape.width);
    m.finish(m.op(OpKind::add, {x, sum}, {}, shape.width, core::AddParams{0.5f}));
  });
  using core::Gate;
  for (const Gate gate : {Gate::softmax, Gate::sigmoid, Gate::softmax_of_chosen, Gate::root_softplus})
    with("experts in groups", [&](RandomProgram& m) {
      RandomProgram::Shape shape;
      shape.hidden = m.integer(1, 80);
      shape.width = m.integer(1, 80);
      const int64_t groups = m.integer(1, 4), size = m.integer(2, 9), groups_used = m.integer(1, groups);
      shape.experts = groups * size;
      shape.used = m.integer(1, groups_used * size);
      shape.route = {0, 0, m.integer(0, 1) == 1, gate, 2.5f, groups, groups_used, m.integer(0, 1) == 1};
      shape.selection_bias = m.integer(0, 1) == 1;
      shape.share_scales = gate == Gate::softmax;
      m.finish(m.moe(m.embed(Type::F32, shape.width, 30), shape, Type::F32));
    });
  with("experts by the token", [](RandomProgram& m) {
    RandomProgram::Shape shape;
    shape.hidden = m.integer(1, 80);
    shape.width = m.integer(1, 80);
    shape.experts = m.integer(2, 9);
    shape.used = m.integer(1, shape.experts);
    shape.route = {0, 0, true, Gate::root_softplus};
    shape.share_scales = shape.chosen_by_token = true;
    m.finish(m.moe(m.embed(Type::F32, shape.width, 30), shape, Type::F32));
  });
  with("experts whose shares are among the worse and near ones", [](RandomProgram& m) {
    RandomProgram::Shape shape;
    shape.hidden = m.integer(1, 80);
    shape.width = m.integer(1, 80);
    shape.experts = m.integer(2, 600);
    shape.used = m.integer(1, std::min<int64_t>(shape.experts, 40));
    shape.equal_scores = m.integer(0, 1) == 1;
    shape.route = {.normalize = false, .by_score = true, .nearness = 0.5f};
    m.finish(m.moe(m.embed(Type::F32, shape.width, 30), shape, Type::F32));
  });
  with("experts of which some share a matrix", [](RandomProgram& m) {
    RandomProgram::Shape shape;
    shape.hidden = m.integer(1, 80);
    shape.width = m.integer(1, 80);
    const int64_t groups = m.integer(1, 3), sharing = m.integer(1, 3);
    shape.experts = groups * sharing * m.integer(2, 6);
    shape.used = m.integer(1, shape.experts / groups);
    shape.route = {0, 0, m.integer(0, 1) == 1, core::Gate::softmax, 1, groups, 1, false, true, sharing};
    m.finish(m.moe(m.embed(Type::F32, shape.width, 30), shape, Type::F32));
  });
  with("rows in runs", [](RandomProgram& m) {
    const int64_t run = m.integer(1, 40), runs = m.integer(1, 4), cols = 32 * m.integer(1, 3);
    const core::ValueId x = m.embed(Type::F32, cols, 30);
    const core::WeightId all = m.weight(Type::Q8_0, cols, 2 * run * runs);
    core::Weight second = m.program.weights[all];
    second.rows = run * runs;
    second.run_rows = run;
    second.run_stride = 2 * run * second.row_bytes;
    second.data += run * second.row_bytes;
    m.program.weights.push_back(second);
    m.finish(m.op(OpKind::linear, {x}, {static_cast<core::WeightId>(m.program.weights.size() - 1)}, run * runs));
  });
  for (const bool normalize : {false, true})
    with("experts", [&](RandomProgram& m) {
      RandomProgram::Shape shape;
      shape.hidden = m.integer(1, 80);
      shape.width = m.integer(1, 80);
      shape.experts = m.integer(2, 9);
      shape.used = m.integer(1, shape.experts);
      shape.normalize_shares = normalize;
      shape.expert_bias = normalize;
      m.finish(m.moe(m.embed(Type::F32, shape.width, 30), shape, Type::F32));
    });
}

// Calls check(type, experts, model). Types with offsets are excluded: their random blocks are biased, and scores become
// too large for f16.
inline void for_each_transformer(uint64_t seed,
                                 const std::function<void(quant::Type, int64_t, RandomProgram&)>& check) {
  for (const quant::Type type : {quant::Type::F32, quant::Type::F16, quant::Type::Q8_0, quant::Type::Q3_K})
    for (const int64_t experts : {0, 5}) {
      CAPTURE(type);
      CAPTURE(experts);
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.experts = experts;
      shape.used = 2;
      shape.style = experts ? core::RopeStyle::split : core::RopeStyle::adjacent;
      shape.bias = shape.head_norms = experts != 0;
      model.transformer(shape, type, quant::Type::Q6_K);
      check(type, experts, model);
    }
}

} // namespace ridge::tests
