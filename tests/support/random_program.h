// Small random Programs with sane weights, and a builder for ops.
#pragma once

#include "core/half.h"
#include "core/program.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

struct RandomProgram {
  core::Program program;
  std::mt19937_64 random;
  std::deque<std::vector<std::byte>> storage;
  std::map<quant::Type, std::vector<std::byte>> good_blocks;
  int32_t layer = -1;

  explicit RandomProgram(uint64_t seed) : random(seed) { program.architecture = program.label = "random"; }

  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }

  // Redraws random bits until the weights have ordinary magnitude.
  void fill_block(const quant::FormatInfo& format, std::byte* block) {
    std::vector<float> weights(format.block_weights);
    if (format.block_weights == 1) {
      const float value = std::normal_distribution<float>(0, 0.05f)(random);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      const uint16_t half = format.type == quant::Type::F16 ? core::f16_from_f32(value) : core::bf16_from_f32(value);
      format.block_bytes == 4 ? std::memcpy(block, &bits, 4) : std::memcpy(block, &half, 2);
      return;
    }
    for (;;) {
      for (int64_t i = 0; i < format.block_bytes; ++i) block[i] = static_cast<std::byte>(random());
      format.decode(block, format.block_weights, weights.data());
      float largest = 0;
      for (float w : weights) largest = std::isfinite(w) ? std::max(largest, std::abs(w)) : INFINITY;
      if (largest > 0.02f && largest < 0.2f) return;
    }
  }

  core::WeightId weight(quant::Type type, int64_t cols, int64_t rows = 1, int64_t count = 1) {
    const quant::FormatInfo& format = quant::format(type);
    const int64_t row_bytes = format.row_bytes(cols);
    std::vector<std::byte>& data = storage.emplace_back(row_bytes * rows * count);
    // Reuses few blocks, because sane ones are rare.
    std::vector<std::byte>& blocks = good_blocks[type];
    if (blocks.empty()) {
      blocks.resize(64 * format.block_bytes);
      for (int i = 0; i < 64; ++i) fill_block(format, blocks.data() + i * format.block_bytes);
    }
    for (size_t at = 0; at < data.size(); at += format.block_bytes)
      std::memcpy(data.data() + at, blocks.data() + random() % 64 * format.block_bytes, format.block_bytes);
    return add_weight(type, cols, rows, count, data.data());
  }
  core::WeightId add_weight(quant::Type type, int64_t cols, int64_t rows, int64_t count, const std::byte* data) {
    const auto id = static_cast<core::WeightId>(program.weights.size());
    program.weights.push_back({"w" + std::to_string(id), static_cast<uint32_t>(type), cols, rows, count,
                               quant::format(type).row_bytes(cols), data});
    return id;
  }

  core::WeightId integers(const std::vector<int32_t>& values) {
    const int64_t columns = std::ssize(values);
    std::vector<std::byte>& data = storage.emplace_back(4 * columns);
    std::memcpy(data.data(), values.data(), data.size());
    const auto id = static_cast<core::WeightId>(program.weights.size());
    program.weights.push_back({"order", core::kOrderType, columns, 1, 1, 4 * columns, data.data()});
    return id;
  }
  core::WeightId order(int64_t columns, int64_t group) {
    std::vector<int32_t> from(columns);
    for (int32_t& element : from) element = static_cast<int32_t>(integer(0, group - 1));
    return integers(from);
  }

  core::ValueId value(int64_t width, bool gathered = false, core::ValueKind kind = core::ValueKind::f32) {
    program.values.push_back({"v" + std::to_string(program.values.size()), width, kind, gathered});
    return static_cast<core::ValueId>(program.values.size() - 1);
  }

  // `width` 0: no output.
  core::ValueId op(core::OpKind kind, std::vector<core::ValueId> inputs, std::vector<core::WeightId> weights,
                   int64_t width, core::OpParams params = {}) {
    if (kind == core::OpKind::add && params.index() == 0) params = core::AddParams{};
    if (kind == core::OpKind::embed && params.index() == 0) params = core::EmbedParams{};
    const bool gathered = kind == core::OpKind::gather || (!inputs.empty() && program.values[inputs[0]].gathered);
    std::vector<core::ValueId> outputs;
    if (width > 0) outputs.push_back(value(width, gathered));
    program.ops.push_back(
        {kind, layer, std::string(name_of(kind)), std::move(inputs), outputs, std::move(weights), params});
    return outputs.empty() ? -1 : outputs[0];
  }

  core::ValueId embed(quant::Type type, int64_t width, int64_t vocab) {
    program.vocab = vocab;
    return op(core::OpKind::embed, {}, {weight(type, width, vocab)}, width);
  }
  core::WeightId factors(int64_t count, double low, double high) {
    std::vector<std::byte>& data = storage.emplace_back(4 * count);
    for (int64_t i = 0; i < count; ++i) {
      const auto factor = static_cast<float>(std::uniform_real_distribution<double>(low, high)(random));
      std::memcpy(data.data() + 4 * i, &factor, 4);
    }
    return add_weight(quant::Type::F32, count, 1, 1, data.data());
  }
  core::WeightId whole_numbers(int64_t cols, int64_t rows) {
    std::vector<std::byte>& data = storage.emplace_back(4 * cols * rows);
    for (int64_t i = 0; i < cols * rows; ++i) {
      const auto number = static_cast<float>(integer(-2, 2));
      std::memcpy(data.data() + 4 * i, &number, 4);
    }
    return add_weight(quant::Type::F32, cols, rows, 1, data.data());
  }
  core::ValueId norm(core::ValueId x, int64_t group) {
    return op(core::OpKind::rms_norm, {x}, {factors(group, 0.5, 1.5)}, program.values[x].width,
              core::NormParams{1e-5f, group});
  }
  core::ValueId layer_norm(core::ValueId x, bool bias = true) {
    const int64_t width = program.values[x].width;
    std::vector<core::WeightId> weights = {factors(width, 0.5, 1.5)};
    if (bias) weights.push_back(factors(width, -1, 1));
    return op(core::OpKind::layer_norm, {x}, std::move(weights), width, core::NormParams{1e-5f, width});
  }
  core::ValueId activate(core::ValueId x, core::Activation kind) {
    return op(core::OpKind::activate, {x}, {}, program.values[x].width, core::ActivationParams{kind});
  }
  core::ValueId linear(core::ValueId x, quant::Type type, int64_t rows, bool bias = false) {
    std::vector<core::WeightId> weights = {weight(type, program.values[x].width, rows)};
    if (bias) weights.push_back(weight(quant::Type::F32, rows));
    return op(core::OpKind::linear, {x}, std::move(weights), rows);
  }
  // Projects to the vocabulary if the widths differ.
  void finish(core::ValueId x, quant::Type type = quant::Type::F32) {
    x = op(core::OpKind::gather, {x}, {}, program.values[x].width);
    program.logits = linear(x, type, program.vocab);
    validate(program);
  }

  struct Shape {
    int64_t layers = 2, width = 256, heads = 4, kv_heads = 2, k_dim = 64, v_dim = 64, hidden = 512, vocab = 64;
    int64_t experts = 0, used = 0;
    bool normalize_shares = true, bias = false, head_norms = false, selection_bias = false, share_scales = false,
         equal_scores = false, router_bias = false, expert_bias = false, output_bias = false, shared_expert = false,
         chosen_by_token = false;
    std::optional<core::RouteParams> route = {};
    core::RopeStyle style = core::RopeStyle::adjacent;
    int64_t rotated = 64;
    core::AttentionParams attention = {}; // layer, heads and scale are set here
    bool sinks = false;
    std::optional<quant::Type> value_type = {};
  };

  void transformer(const Shape& s, quant::Type type, quant::Type output) {
    core::RopeTable table = {{}, 1.0f, s.style};
    for (int64_t i = 0; i < s.rotated / 2; ++i)
      table.inverse_frequency.push_back(
          static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(s.rotated))));
    program.rope_tables.push_back(table);
    core::ValueId x = embed(type, s.width, s.vocab);
    for (layer = 0; layer < s.layers; ++layer) {
      program.kv_layers.push_back({s.kv_heads, s.k_dim, s.v_dim});
      core::ValueId h = norm(x, s.width);
      core::ValueId q = linear(h, type, s.heads * s.k_dim, s.bias), k = linear(h, type, s.kv_heads * s.k_dim, s.bias);
      const core::ValueId v = linear(h, s.value_type.value_or(type), s.kv_heads * s.v_dim, s.bias);
      if (s.head_norms) q = norm(q, s.k_dim), k = norm(k, s.k_dim);
      q = op(core::OpKind::rope, {q}, {}, s.heads * s.k_dim, core::RopeParams{0, s.heads, s.k_dim});
      k = op(core::OpKind::rope, {k}, {}, s.kv_heads * s.k_dim, core::RopeParams{0, s.kv_heads, s.k_dim});
      op(core::OpKind::kv_store, {k, v}, {}, 0, core::KvParams{layer});
      core::AttentionParams params = s.attention;
      params.layer = layer;
      params.heads = s.heads;
      params.scale = 1.0f / std::sqrt(static_cast<float>(s.k_dim));
      std::vector<core::WeightId> sinks;
      if (s.sinks) sinks.push_back(factors(s.heads, -1, 3));
      h = op(core::OpKind::attention, {q}, sinks, s.heads * s.v_dim, params);
      x = op(core::OpKind::add, {x, linear(h, type, s.width, s.output_bias)}, {}, s.width);
      h = norm(x, s.width);
      x = op(core::OpKind::add, {x, s.experts ? moe(h, s, type) : dense(h, s, type)}, {}, s.width);
    }
    layer = -1;
    x = op(core::OpKind::gather, {x}, {}, s.width);
    program.logits = linear(norm(x, s.width), output, s.vocab);
    validate(program);
  }

  core::ValueId dense(core::ValueId h, const Shape& s, quant::Type type) {
    const core::ValueId gate = linear(h, type, s.hidden), up = linear(h, type, s.hidden);
    return linear(op(core::OpKind::glu, {gate, up}, {}, s.hidden, core::ActivationParams{core::Activation::silu}), type,
                  s.width);
  }

  core::ValueId moe(core::ValueId h, const Shape& s, quant::Type type) {
    const core::ValueId scores = s.equal_scores ? op(core::OpKind::embed, {}, {whole_numbers(s.experts, 30)}, s.experts)
                                                : linear(h, quant::Type::F32, s.experts, s.router_bias);
    const core::ValueId shared_gate = s.shared_expert ? linear(h, quant::Type::F32, 1) : -1;
    const core::ValueId ids = value(s.used, false, core::ValueKind::i32), shares = value(s.used);
    core::RouteParams params = s.route.value_or(core::RouteParams{0, 0, s.normalize_shares});
    params.experts = s.experts;
    params.used = s.used;
    std::vector<core::WeightId> bias;
    if (s.selection_bias || s.share_scales) bias.push_back(factors(s.experts, -0.2, 0.2));
    if (s.share_scales) bias.push_back(factors(s.experts, 0.5, 1.5));
    if (s.chosen_by_token) bias.push_back(order(program.vocab * s.used, s.experts));
    program.ops.push_back({core::OpKind::route, layer, "route", {scores}, {ids, shares}, bias, params});
    const auto expert = [&](core::ValueId x, int64_t cols, int64_t rows) {
      std::vector<core::WeightId> weights = {weight(type, cols, rows, s.experts / params.share_matrix)};
      if (s.expert_bias) weights.push_back(factors(s.experts * rows, -1, 1));
      return op(core::OpKind::expert_linear, {x, ids}, std::move(weights), s.used * rows, core::ExpertParams{s.used});
    };
    const core::ValueId gate = expert(h, s.width, s.hidden), up = expert(h, s.width, s.hidden);
    const core::ValueId act =
        op(core::OpKind::glu, {gate, up}, {}, s.used * s.hidden, core::ActivationParams{core::Activation::silu});
    const core::ValueId sum =
        op(core::OpKind::expert_sum, {expert(act, s.hidden, s.width), shares}, {}, s.width, core::ExpertParams{s.used});
    if (!s.shared_expert) return sum;
    const core::ValueId shared = op(core::OpKind::glu, {shared_gate, dense(h, s, type)}, {}, s.width,
                                    core::ActivationParams{core::Activation::sigmoid});
    return op(core::OpKind::add, {sum, shared}, {}, s.width);
  }
};

} // namespace ridge::tests
