// Batches with rows and places.
#pragma once

#include "support/executor_runs.h"
#include "support/seed.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ridge::tests {

// Blocks of `block` tokens start at position `block`; the last is partial.
struct Placed {
  std::vector<int32_t> tokens, positions, outputs, axes, block_ends;
  std::vector<float> rows;

  Placed(const core::Program& program, int64_t first, int64_t count, int64_t block) {
    for (int64_t i = first; i < first + count; ++i) {
      const bool given = i % 3 == 1;
      tokens.push_back(given ? -1 - static_cast<int32_t>(std::ssize(rows) / program.row_width)
                             : static_cast<int32_t>(i % program.vocab));
      for (int64_t c = 0; given && c < program.row_width; ++c)
        rows.push_back(static_cast<float>((i * 7 + c * 5) % 13) / 13 - 0.5f);
      positions.push_back(static_cast<int32_t>(i));
      outputs.push_back(static_cast<int32_t>(i - first));
      for (int32_t axis = 0; axis < core::kPlaceAxes; ++axis)
        axes.push_back(static_cast<int32_t>(i / (axis + 1) + axis));
      block_ends.push_back(i < block ? 0 : static_cast<int32_t>(std::min((i / block + 1) * block, first + count)));
    }
  }
  core::Batch batch() const {
    core::Batch made{tokens, positions, {}, outputs};
    made.rows = rows;
    made.axes = axes;
    made.block_ends = block_ends;
    return made;
  }
};

inline core::ValueId turned_attention(RandomProgram& m, core::ValueId x, core::AttentionParams params, int64_t kv_heads,
                                      int64_t dim) {
  params.layer = static_cast<int32_t>(m.program.kv_layers.size());
  params.scale = 0.3f;
  m.program.kv_layers.push_back({kv_heads, dim, dim});
  const auto of_heads = [&](int64_t heads) { return m.linear(x, quant::Type::F32, heads * dim); };
  const auto turned = [&](int64_t heads) {
    return m.op(core::OpKind::rope, {of_heads(heads)}, {}, heads * dim, core::RopeParams{0, heads, dim});
  };
  const core::ValueId k = turned(kv_heads), v = of_heads(kv_heads);
  m.program.ops.push_back({core::OpKind::kv_store, 0, "store", {k, v}, {}, {}, core::KvParams{params.layer}});
  return m.op(core::OpKind::attention, {turned(params.heads)}, {}, params.heads * dim, params);
}

struct PlacedSetting {
  core::AttentionParams attention;
  core::RopeStyle style = core::RopeStyle::split;
  core::RowUse rows = core::RowUse::unscaled;
  int64_t axes = core::kPlaceAxes; // number of places that rotate pairs
  int64_t kv_heads = 3, dim = 16, pairs = 6, block = 5;
};

// The first part is embedded, the last goes to the logits.
inline void make_placed_program(RandomProgram& m, const PlacedSetting& setting) {
  constexpr int64_t kWidth = 48, kGiven = 20, kVocab = 20;
  m.program.has_token_coordinates = true;
  m.program.row_width = kWidth;
  core::RopeTable& table = m.program.rope_tables.emplace_back(core::RopeTable{{}, 1, setting.style});
  for (int64_t pair = 0; pair < setting.pairs; ++pair) {
    table.inverse_frequency.push_back(1 / static_cast<float>(1 + pair * pair));
    table.axes.push_back(static_cast<uint8_t>(pair % setting.axes));
  }
  const core::ValueId x = m.embed(quant::Type::F32, kWidth, kVocab);
  std::get<core::EmbedParams>(m.program.ops.back().params) = {1.5f, false, setting.rows};
  const core::ValueId given = m.op(core::OpKind::given, {}, {}, kGiven, core::GivenParams{kWidth - kGiven});
  const core::ValueId y = turned_attention(m, x, setting.attention, setting.kv_heads, setting.dim);
  m.finish(m.op(core::OpKind::concat, {y, given}, {}, setting.attention.heads * setting.dim + kGiven));
}

// NMSE over batches of these sizes. Non-causal models get one whole text per batch.
inline double placed_error(const MakeExecutor& make_executor, RandomProgram& m, const core::ExecutorConfig& config,
                           const PlacedSetting& setting, const std::vector<int64_t>& sizes) {
  const auto executor = make_executor(m.program, config);
  WorstError worst;
  Naive naive(m.program, config.k_type, config.v_type);
  int64_t first = 0;
  for (const int64_t count : sizes) {
    Placed placed(m.program, first, count, setting.block);
    if (setting.attention.in_blocks)
      for (int64_t i = 0; i < std::min(setting.block, count); ++i)
        placed.block_ends[i] = static_cast<int32_t>(std::min(setting.block, count));
    executor->forward(placed.batch());
    std::vector<float> all;
    for (int64_t i = 0; i < count; ++i) {
      const std::span<const float> row = executor->logits(i);
      all.insert(all.end(), row.begin(), row.end());
    }
    worst.add(all, naive.forward(placed.batch()));
    if (setting.attention.causal) first += count;
  }
  return worst.nmse();
}

template <typename Check>
void for_each_placed_setting(const Check& check) {
  for (const bool causal : {true, false})
    for (const bool in_blocks : {false, true})
      for (const bool ahead : {false, true})
        for (const int64_t window : {0, 4})
          for (const core::RopeStyle style : {core::RopeStyle::adjacent, core::RopeStyle::split}) {
            if (in_blocks && causal) continue;
            PlacedSetting setting = {.style = style};
            setting.rows = ahead ? core::RowUse::scaled : core::RowUse::unscaled;
            setting.attention.heads = 3;
            setting.attention.causal = causal;
            setting.attention.in_blocks = in_blocks;
            setting.attention.block_ahead = ahead;
            setting.attention.window = window;
            CAPTURE(causal);
            CAPTURE(in_blocks);
            CAPTURE(ahead);
            CAPTURE(window);
            check(setting);
          }
}

} // namespace ridge::tests
