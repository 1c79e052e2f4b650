// Speculative decoding on the device.
#include "device.h"
#include "engine/guess_runs.h"
#include "engine/head_runs.h"
#include "greedy.h"
#include "support/drafts/dflash_naive.h"
#include "support/drafts/draft_model.h"
#include "support/drafts/eagle_runs.h"
#include "support/numerics.h"
#include "support/random_program.h"

using namespace ridge;
using core::SamplerParams;
using quant::Type;

namespace {

core::ExecutorConfig exact_config() {
  core::ExecutorConfig config;
  config.context = 400;
  config.max_batch = 32;
  config.max_outputs = 16;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  return config;
}

constexpr int64_t kVocab = 3000;

void make_transformer(tests::RandomProgram& model) {
  tests::RandomProgram::Shape shape;
  shape.vocab = kVocab;
  model.transformer(shape, Type::F32, Type::F32);
}

} // namespace

TEST_CASE("CUDA: behind guesses the device chooses what it chooses without, with any settings, and goes on as before") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::RandomProgram model(seed);
  make_transformer(model);
  const auto executor = tests::make_executor(model.program, exact_config());
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  std::vector<SamplerParams> settings(5);
  for (SamplerParams& params : settings) params.seed = static_cast<int64_t>(seed & 0xffff);
  settings[0].temp = 0;
  settings[1].temp = 2;
  settings[2].repeat_penalty = 1.7f;
  settings[2].repeat_last_n = 5;
  settings[3].presence_penalty = 0.3f;
  settings[3].repeat_last_n = -1;
  settings[4].top_k = 0;
  for (const SamplerParams& params : settings) {
    CAPTURE(params.temp);
    CAPTURE(params.repeat_last_n);
    const std::vector<int32_t> plain = tests::generated(*executor, model.program, prompt, params, 300);
    for (const int64_t length : {0, 1, 2, 7, 15}) { // 0: adaptive, with steps without guesses
      CAPTURE(length);
      for (const double right : {0.0, 0.7, 1.0}) {
        CAPTURE(right);
        auto drafter = std::make_unique<tests::ScriptedDrafter>(plain, right, kVocab, seed);
        tests::check_same(tests::generated(*executor, model.program, prompt, params, 300,
                                           std::make_unique<engine::Speculator>(std::move(drafter), length)),
                          plain);
      }
    }
  }
}

TEST_CASE("CUDA: logits that are no numbers are told behind guesses too") {
  REQUIRE_DEVICE();
  tests::RandomProgram model(1);
  model.finish(model.norm(model.embed(Type::F16, 64, 100), 64), Type::F16);
  for (std::byte& b : model.storage.back()) b = std::byte{0x7e}; // f16 NaN
  const auto executor = tests::make_executor(model.program, exact_config());
  const int32_t token = 0;
  const core::Sampler sampler({}, 100);
  tests::begin_chain(*executor, {{&token, 1}, {&token, 1}, {}, {&token, 1}}, sampler);
  CHECK(tests::next_token(*executor, 1, false) == -1);
  const std::vector<int32_t> tokens = {0, 1, 2};
  const std::span<const int32_t> chosen = tests::verified(*executor, tokens, 1);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0] == -1);
  core::Sampler greedy({.temp = 0, .bias = {}}, 100);
  CHECK(executor->continue_greedily({{&token, 1}, {&token, 1}, {}, {&token, 1}}, greedy, 4) ==
        std::vector<int32_t>{-1});
}

TEST_CASE("CUDA: a text goes on as it does with a turn of the host for each token") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::RandomProgram model(seed);
  make_transformer(model);
  core::ExecutorConfig config = exact_config();
  config.streams = 2;
  const auto executor = tests::make_executor(model.program, config);
  core::Sampler greedy({.temp = 0, .bias = {}}, kVocab);
  for (const int32_t stream : {1, 0})
    for (const int32_t length : {1, 2, 7, 32}) {
      CAPTURE(length);
      std::vector<int32_t> tokens(length), positions(length);
      const std::vector<int32_t> streams(length, stream);
      for (int32_t i = 0; i < length; ++i) tokens[i] = 93 * i + stream, positions[i] = i;
      const int32_t last = length - 1;
      const core::Batch batch{tokens, positions, streams, {&last, 1}};
      for (const int64_t count : {1, 2, 15}) {
        CAPTURE(count);
        const std::vector<int32_t> expected = executor->core::Executor::continue_greedily(batch, greedy, count);
        REQUIRE(std::ssize(expected) == count);
        CHECK(executor->continue_greedily(batch, greedy, count) == expected);
        const std::span<const float> logits = executor->logits(0);
        if (count == 1) CHECK(greedy.sample(logits) == expected[0]);
      }
    }
  const std::vector<int32_t> end = {static_cast<int32_t>(config.context) - 2};
  const int32_t zero = 0;
  CHECK(executor->continue_greedily({{&zero, 1}, end, {}, {&zero, 1}}, greedy, 2).size() == 2);
  CHECK_THROWS_AS(executor->continue_greedily({{&zero, 1}, end, {}, {&zero, 1}}, greedy, 4), std::logic_error);
}

TEST_CASE("CUDA: draft heads guess what they compute from the rows that decoding leaves, and change no answer") {
  REQUIRE_DEVICE();
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  std::vector<SamplerParams> settings(2);
  settings[0].temp = 0;
  settings[1].seed = 7;
  tests::Share share;
  const auto check = [&](const engine::LoadedModel& model) {
    for (const SamplerParams& params : settings) {
      const std::vector<int32_t> plain = tests::generated(*model.executor, model.program, prompt, params, 60);
      for (const int64_t length : {0, 1, 5}) {
        if (!share.takes_next()) continue;
        CAPTURE(length);
        auto heads = std::make_unique<tests::WatchedHeads>(model, tests::make_executor);
        tests::check_same(tests::generated(*model.executor, model.program, prompt, params, 60,
                                           std::make_unique<engine::Speculator>(std::move(heads), length)),
                          plain);
      }
    }
  };
  for (const tests::DraftModel& made :
       {tests::DraftModel::attention(), tests::DraftModel::recurrent(), tests::DraftModel::chained()}) {
    CAPTURE(std::string(made.shape.architecture));
    check(tests::open_with_heads(made.open(), tests::make_executor));
  }
  for (const tests::EaglePair& pair : tests::EaglePair::kinds()) {
    CAPTURE(pair.width);
    CAPTURE(pair.own_vocab);
    check(tests::open_with_eagle(pair.model(), pair.head(), tests::make_executor));
  }
}

TEST_CASE("CUDA: EAGLE-3 heads of every kind have the logits of their definition, also of a guess behind a guess") {
  REQUIRE_DEVICE();
  tests::check_eagle_golden(tests::make_executor);
}

TEST_CASE("CUDA: DFlash heads have the logits of their definition, and the answer is the one without them") {
  REQUIRE_DEVICE();
  tests::check_dflash(tests::make_executor);
  for (const tests::DflashPair& pair : tests::DflashPair::kinds()) {
    CAPTURE(pair.layers.size());
    const engine::LoadedModel model = tests::open_with_dflash(pair.model(), pair.head(), tests::make_executor);
    SamplerParams greedy;
    greedy.temp = 0;
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
    const std::vector<int32_t> plain = tests::generated(*model.executor, model.program, prompt, greedy, 60);
    for (const int64_t length : {0, 1, 7})
      tests::check_same(
          tests::generated(*model.executor, model.program, prompt, greedy, 60,
                           std::make_unique<engine::Speculator>(engine::make_head_drafter(model), length)),
          plain);
  }
}

TEST_CASE("CUDA: tiny models of every architecture say the same with guesses as without") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  tests::Share share;
  for (const std::string& name : tests::recipes_to_guess_for())
    if (share.takes_next()) tests::check_guesses(tests::make_executor, name);
}
