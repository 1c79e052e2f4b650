// Prompt pieces beside other streams' tokens, each with its usual attention kernel.
#include "core/rings.h"

#include "attention/attention_models.h"
#include "device.h"
#include "support/executor_runs.h"

#include <tuple>
#include <vector>

using namespace ridge;
using core::KvType;
using tests::Heads;
using tests::RandomProgram;
using tests::Steps;
using tests::window;

namespace {

struct Part {
  int32_t stream, tokens;
};

Steps next_of(RandomProgram& model, std::vector<int32_t>& next, const std::vector<Part>& parts) {
  Steps all;
  for (const Part& part : parts) {
    const Steps more = tests::consecutive(model, next[part.stream], part.tokens, part.stream);
    next[part.stream] += part.tokens;
    all.tokens.insert(all.tokens.end(), more.tokens.begin(), more.tokens.end());
    all.positions.insert(all.positions.end(), more.positions.begin(), more.positions.end());
    all.streams.insert(all.streams.end(), more.streams.begin(), more.streams.end());
  }
  for (size_t i = 0; i < all.tokens.size(); ++i) all.outputs.push_back(static_cast<int32_t>(i));
  return all;
}

double worst_error_of_parts(RandomProgram& model, const core::ExecutorConfig& config,
                            const std::vector<std::vector<Part>>& batches) {
  const auto executor = tests::make_executor(model.program, config);
  tests::Naive naive(model.program, config.k_type, config.v_type);
  std::vector<int32_t> next(config.streams);
  tests::WorstError worst;
  for (const std::vector<Part>& parts : batches) {
    const Steps steps = next_of(model, next, parts);
    worst.add(tests::run(*executor, steps), naive.forward(steps.batch()));
  }
  return worst.nmse();
}

} // namespace

TEST_CASE("CUDA: pieces of prompts beside tokens of other streams give what they mean, wherever they stand") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const auto& [heads, kv_heads, dim] :
       {std::tuple(8, 1, 64), {8, 2, 128}, {8, 4, 256}, {6, 1, 512}, {6, 2, 96}, {3, 1, 24}})
    for (const core::AttentionParams& sees :
         {window(0), window(40), window(300), window(200, true), window(0, false, 2)})
      for (const bool sinks : {false, true})
        for (const KvType type : {KvType::f16, KvType::q8_0}) {
          if ((type == KvType::q8_0 && dim % core::kKvBlock > 0) || !share.takes_next()) continue;
          CAPTURE(heads);
          CAPTURE(dim);
          CAPTURE(sees.window);
          CAPTURE(sees.chunked);
          CAPTURE(sees.soft_cap);
          CAPTURE(sinks);
          CAPTURE(type);
          RandomProgram model =
              tests::attention_model(seed, {heads, kv_heads, dim, dim, core::RopeStyle::split, sees, sinks}, seed % 2);
          core::ExecutorConfig config = tests::fast_config();
          config.context = 500;
          config.max_batch = config.max_outputs = 260;
          config.streams = 4;
          config.k_type = config.v_type = type;
          CHECK(worst_error_of_parts(model, config,
                                     {{{0, 90}},
                                      {{0, 1}, {1, 100}},
                                      {{2, 64}, {0, 1}, {1, 1}, {3, 70}},
                                      {{3, 10}, {2, 63}, {0, 1}, {1, 1}},
                                      {{1, 1}, {0, 1}, {2, 150}, {3, 90}, {1, 1}},
                                      {{0, 1}, {1, 1}, {2, 1}, {3, 1}}}) < 3e-5);
        }
}
