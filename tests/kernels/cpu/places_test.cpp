// Tokens with rows and places: what the CPU executor makes of them, against the plainest terms.
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"

#include "support/naive.h"
#include "support/numerics.h"
#include "support/random_program.h"

#include <numeric>

using namespace ridge;
using core::OpKind;

namespace {

constexpr int64_t kTokens = 23;

// Batches of one stream with rows for some tokens, places that are not positions, and blocks of some tokens.
struct Placed {
  std::vector<int32_t> tokens, positions, outputs, axes, block_ends;
  std::vector<float> rows;

  Placed(tests::RandomProgram& m, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      const bool given = i % 3 == 1;
      tokens.push_back(given ? -1 - static_cast<int32_t>(std::ssize(rows) / m.program.row_width)
                             : static_cast<int32_t>(i % 20));
      for (int64_t c = 0; given && c < m.program.row_width; ++c)
        rows.push_back(static_cast<float>((i * 7 + c * 5) % 13) / 13 - 0.5f);
      positions.push_back(static_cast<int32_t>(i));
      outputs.push_back(static_cast<int32_t>(i - first));
      for (int32_t axis = 0; axis < core::kPlaceAxes; ++axis)
        axes.push_back(static_cast<int32_t>(i / (axis + 1) + axis));
      // Blocks of 5 from position 5 on, the last one not whole.
      block_ends.push_back(i < 5 ? 0 : static_cast<int32_t>(std::min(i / 5 * 5 + 5, first + count)));
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

core::ValueId turned_attention(tests::RandomProgram& m, core::ValueId x, const core::AttentionParams& wanted) {
  constexpr int64_t kHeads = 3, kDim = 16;
  core::AttentionParams params = wanted;
  params.layer = static_cast<int32_t>(m.program.kv_layers.size());
  params.heads = kHeads;
  params.scale = 0.3f;
  m.program.kv_layers.push_back({kHeads, kDim, kDim});
  const auto of_heads = [&] { return m.linear(x, quant::Type::F32, kHeads * kDim); };
  const auto turned = [&](core::ValueId v) {
    return m.op(OpKind::rope, {v}, {}, kHeads * kDim, core::RopeParams{0, kHeads, kDim});
  };
  const core::ValueId k = turned(of_heads()), v = of_heads();
  m.program.ops.push_back({OpKind::kv_store, 0, "store", {k, v}, {}, {}, core::KvParams{params.layer}});
  return m.op(OpKind::attention, {turned(of_heads())}, {}, kHeads * kDim, params);
}

std::vector<float> all_logits(core::Executor& executor, int64_t count) {
  std::vector<float> all;
  for (int64_t i = 0; i < count; ++i) {
    const std::span<const float> row = executor.logits(i);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

core::ExecutorConfig exact() {
  core::ExecutorConfig config = {.context = 64, .max_batch = 32, .max_outputs = 32};
  config.k_type = config.v_type = core::KvType::f32;
  config.exact = true;
  return config;
}

} // namespace

TEST_CASE("rows, places and blocks of tokens are what they mean") {
  for (const bool causal : {true, false})
    for (const bool in_blocks : {false, true})
      for (const bool ahead : {false, true})
        for (const int64_t window : {0, 4})
          for (const core::RopeStyle style : {core::RopeStyle::adjacent, core::RopeStyle::split}) {
            if (in_blocks && causal) continue;
            CAPTURE(causal);
            CAPTURE(in_blocks);
            CAPTURE(window);
            tests::RandomProgram m(tests::fresh_seed());
            m.program.has_places = true;
            m.program.row_width = 48;
            m.program.rope_tables.push_back({{1, 0.5f, 0.25f, 0.1f, 0.03f, 0.01f}, 1, style});
            m.program.rope_tables[0].axes = {0, 1, 2, 3, 1, 2};
            core::AttentionParams params;
            params.causal = causal;
            params.in_blocks = in_blocks;
            params.block_ahead = ahead;
            params.window = window;
            const core::ValueId x = m.embed(quant::Type::F32, 48, 20);
            const core::ValueId given = m.op(OpKind::given, {}, {}, 20, core::GivenParams{28});
            m.finish(m.op(OpKind::concat, {turned_attention(m, x, params), given}, {}, 68));
            const auto executor = kernels::cpu::make_cpu_executor(m.program, exact());
            tests::Naive naive(m.program, core::KvType::f32, core::KvType::f32);
            // A model whose tokens see later ones gets whole texts.
            for (const auto& [first, count] : causal ? std::vector<std::pair<int64_t, int64_t>>{{0, 10}, {10, 13}}
                                                     : std::vector<std::pair<int64_t, int64_t>>{{0, kTokens}}) {
              const Placed placed(m, first, count);
              if (in_blocks && first == 0) { // every token is in one there
                Placed all = placed;
                for (int64_t i = 0; i < 5; ++i) all.block_ends[i] = 5;
                executor->forward(all.batch());
                CHECK(tests::nmse(all_logits(*executor, count), naive.forward(all.batch())) < 1e-9);
                continue;
              }
              executor->forward(placed.batch());
              CHECK(tests::nmse(all_logits(*executor, count), naive.forward(placed.batch())) < 1e-9);
            }
          }
}

TEST_CASE("batches with rows and places that a Program does not take are refused") {
  tests::RandomProgram m(1);
  m.finish(m.embed(quant::Type::F32, 8, 20));
  const auto executor = kernels::cpu::make_cpu_executor(m.program, exact());
  const std::vector<int32_t> zero = {0}, one_given = {-1}, axes = {0, 0, 0, 0};
  const std::vector<float> row(8);
  const auto refuses = [&](const std::vector<int32_t>& tokens, std::span<const float> rows,
                           std::span<const int32_t> places) {
    core::Batch batch{tokens, zero, {}, zero};
    batch.rows = rows;
    batch.axes = places;
    CHECK_THROWS_AS(executor->forward(batch), core::Error);
  };
  refuses(one_given, {}, {});
  refuses(one_given, row, {});
  refuses(zero, row, {});
  refuses(zero, {}, axes);
}
