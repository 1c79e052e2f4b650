// Rows, axes and pictures on the GPU.
#include "device.h"
#include "greedy.h"
#include "kernels/cpu/executor/executor.h"
#include "support/placed_batches.h"
#include "support/recipes/golden_rows.h"
#include "support/recipes/recipe_runs.h"
#include "support/recipes/vision_runs.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace ridge;

namespace {

constexpr double kExact = 1e-9, kFast = 1e-5;
constexpr double kFastPicture = 1e-3; // another resizing gives 1e-4 to 1

core::ExecutorConfig config_for(bool exact, int64_t tokens) {
  core::ExecutorConfig config = exact ? tests::exact_config() : tests::fast_config();
  config.context = config.max_batch = config.max_outputs = tokens;
  return config;
}

int32_t best_of(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

} // namespace

TEST_CASE("CUDA: rows, places and blocks of tokens are what they mean, in small batches") {
  REQUIRE_DEVICE();
  tests::for_each_placed_setting([](const tests::PlacedSetting& setting) {
    for (const bool exact : {true, false}) {
      CAPTURE(exact);
      tests::RandomProgram m(tests::fresh_seed());
      tests::make_placed_program(m, setting);
      CHECK(tests::placed_error(tests::make_executor, m, config_for(exact, 64), setting, {10, 13, 1, 2}) <
            (exact ? kExact : kFast));
    }
  });
}

TEST_CASE("CUDA: rope of several axes turns by the position where tokens have no places") {
  REQUIRE_DEVICE();
  for (const int64_t dim : {40, 64})
    for (const bool exact : {true, false}) {
      CAPTURE(dim);
      CAPTURE(exact);
      tests::RandomProgram m(tests::fresh_seed());
      core::RopeTable& table = m.program.rope_tables.emplace_back(core::RopeTable{{}, 1, core::RopeStyle::split});
      for (int64_t pair = 0; pair < dim / 2; ++pair) {
        table.inverse_frequency.push_back(1 / static_cast<float>(1 + pair * pair));
        table.axes.push_back(static_cast<uint8_t>(pair % core::kPlaceAxes));
      }
      core::AttentionParams attention;
      attention.heads = 3;
      const core::ValueId x = m.embed(quant::Type::F32, 48, 20);
      m.finish(tests::turned_attention(m, x, attention, 3, dim));
      const auto executor = tests::make_executor(m.program, config_for(exact, 128));
      tests::Naive naive(m.program, config_for(exact, 128).k_type, config_for(exact, 128).v_type);
      int32_t first = 0;
      for (const int32_t count : {80, 10, 1, 2}) {
        tests::Steps steps;
        for (int32_t i = 0; i < count; ++i) {
          steps.tokens.push_back((first + i) * 7 % 20);
          steps.positions.push_back(first + i);
          steps.streams.push_back(0);
          steps.outputs.push_back(i);
        }
        CHECK(tests::nmse(tests::run(*executor, steps), naive.forward(steps.batch())) < (exact ? kExact : kFast));
        first += count;
      }
    }
}

TEST_CASE("CUDA: tokens of prompts that see later ones, in heads of many widths") {
  REQUIRE_DEVICE();
  tests::GpuOptions options;
  const auto make = [&](const core::Program& program, const core::ExecutorConfig& config) {
    return tests::make_cuda_executor(program, config, options);
  };
  tests::for_each_placed_setting([&](tests::PlacedSetting setting) {
    if (setting.style == core::RopeStyle::adjacent) return;
    for (const int64_t dim : {16, 40, 64, 72, 80, 96, 128, 256}) {
      if (setting.attention.window > 0) setting.attention.window = 70;
      if (setting.attention.in_blocks) setting.attention.window = setting.block;
      for (const int64_t block : {5, 90}) {
        setting.dim = dim;
        setting.block = block;
        setting.kv_heads = dim == 64 ? 1 : 3;
        options.as_compute = options.as_compute ? 0 : 89;
        CAPTURE(options.as_compute);
        CAPTURE(dim);
        CAPTURE(block);
        tests::RandomProgram m(tests::fresh_seed());
        tests::make_placed_program(m, setting);
        CHECK(tests::placed_error(make, m, config_for(false, 420), setting, {200, 130}) < kFast);
      }
    }
  });
}

TEST_CASE("CUDA: an encoder's layers make the rows that the CPU makes, of any number of patches, and again") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  constexpr int64_t kHeads = 4, kHidden = 1076, kVocab = 50;
  for (const int64_t dim : {64, 72, 80}) {
    CAPTURE(dim);
    tests::RandomProgram m(seed + dim);
    core::RopeTable& table = m.program.rope_tables.emplace_back(core::RopeTable{{}, 1, core::RopeStyle::split});
    for (int64_t pair = 0; pair < dim / 2; ++pair)
      table.inverse_frequency.push_back(1 / static_cast<float>(1 + pair * pair));
    const int64_t width = kHeads * dim;
    const auto linear = [&](core::ValueId x, int64_t rows) { return m.linear(x, quant::Type::F16, rows, true); };
    const auto add = [&](core::ValueId x, core::ValueId y) { return m.op(core::OpKind::add, {x, y}, {}, width); };
    core::ValueId x = m.embed(quant::Type::F32, width, kVocab);
    for (int32_t layer = 0; layer < 2; ++layer) {
      const core::ValueId normed = m.layer_norm(x);
      core::ValueId q = linear(normed, width), k = linear(normed, width), v = linear(normed, width);
      for (core::ValueId* turned : {&q, &k})
        *turned = m.op(core::OpKind::rope, {*turned}, {}, width, core::RopeParams{0, kHeads, dim});
      m.program.kv_layers.push_back({kHeads, dim, dim});
      m.program.ops.push_back({core::OpKind::kv_store, layer, "store", {k, v}, {}, {}, core::KvParams{layer}});
      core::AttentionParams attention = {.heads = kHeads};
      attention.layer = layer;
      attention.scale = 1 / std::sqrt(static_cast<float>(dim));
      attention.causal = false;
      x = add(x, linear(m.op(core::OpKind::attention, {q}, {}, width, attention), width));
      x = add(x, linear(m.activate(linear(m.layer_norm(x), kHidden), core::Activation::gelu), width));
    }
    m.program.output = x;
    core::validate(m.program);
    for (const int64_t count : {m.integer(65, 128), m.integer(129, 400), m.integer(401, 800)}) {
      CAPTURE(count);
      tests::Steps steps;
      for (int32_t i = 0; i < count; ++i) {
        steps.tokens.push_back(static_cast<int32_t>(m.integer(0, kVocab - 1)));
        steps.positions.push_back(i);
      }
      const auto rows = [&](core::Executor& executor) {
        executor.forward({.tokens = steps.tokens, .positions = steps.positions});
        const float* first = executor.logits(0).data();
        return std::vector<float>(first, first + count * width);
      };
      const auto config = [&](bool exact) {
        core::ExecutorConfig of = config_for(exact, count);
        of.max_outputs = 0;
        return of;
      };
      const auto cpu = kernels::cpu::make_cpu_executor(m.program, config(true));
      const std::vector<float> expected = rows(*cpu);
      tests::GpuOptions prompt;
      prompt.way = "prompt";
      const auto gpu = tests::make_cuda_executor(m.program, config(false), prompt);
      const std::vector<float> made = rows(*gpu);
      CHECK(tests::nmse(made, expected) < kFast);
      CHECK(made == rows(*gpu));
    }
  }
}

TEST_CASE("CUDA: chosen tokens and guesses have the places behind the prompt's last token") {
  REQUIRE_DEVICE();
  constexpr int64_t kPrompt = 20, kChosen = 8;
  for (const int64_t dim : {16, 64, 128}) {
    CAPTURE(dim);
    tests::PlacedSetting setting = {.axes = core::kPlaceAxes - 1, .dim = dim, .pairs = dim / 2};
    setting.attention.heads = 3;
    tests::RandomProgram m(tests::fresh_seed());
    tests::make_placed_program(m, setting);
    const auto executor = tests::make_executor(m.program, config_for(false, 64));
    // Text after a picture: coordinates are 7 less than positions.
    tests::Placed prompt(m.program, 0, kPrompt, 64);
    for (int64_t axis = 0; axis < core::kPlaceAxes; ++axis)
      prompt.axes[(kPrompt - 1) * core::kPlaceAxes + axis] = kPrompt - 1 - 7;
    prompt.outputs = {kPrompt - 1};
    const auto step = [&](int32_t token, int64_t position) {
      const auto at = static_cast<int32_t>(position), place = at - 7, output = 0;
      const std::array<int32_t, 4> axes = {place, place, place, place};
      core::Batch batch{{&token, 1}, {&at, 1}, {}, {&output, 1}};
      batch.axes = axes;
      executor->forward(batch);
      return best_of(executor->logits(0));
    };
    executor->forward(prompt.batch());
    std::vector<int32_t> wanted = {best_of(executor->logits(0))};
    for (int64_t i = 0; i < kChosen; ++i) wanted.push_back(step(wanted.back(), kPrompt + i));

    core::SamplerParams greedy;
    greedy.temp = 0;
    core::Sampler sampler(greedy, m.program.vocab);
    tests::begin_chain(*executor, prompt.batch(), sampler);
    std::vector<int32_t> chosen;
    for (int64_t i = 0; i < 4; ++i) chosen.push_back(tests::next_token(*executor, kPrompt + i, i < 3));
    const std::vector<int32_t> guessed = {chosen.back(), wanted[4], wanted[5]};
    for (const int32_t token : tests::verified(*executor, guessed, static_cast<int32_t>(kPrompt + 3)))
      chosen.push_back(token);
    CHECK(chosen == std::vector(wanted.begin(), wanted.begin() + std::ssize(chosen)));
    CHECK(std::ssize(chosen) == 7);

    CHECK(executor->continue_greedily(prompt.batch(), sampler, kChosen) ==
          std::vector(wanted.begin(), wanted.begin() + kChosen));
  }
}

TEST_CASE("CUDA: batches of more shapes than graphs are kept of have the logits that they had") {
  REQUIRE_DEVICE();
  tests::RandomProgram m(tests::fresh_seed());
  m.finish(m.embed(quant::Type::F32, 32, 20));
  const auto executor = tests::make_executor(m.program, config_for(false, 64));
  tests::Steps steps = tests::consecutive(m, 0, 20);
  const std::vector<float> first = tests::run(*executor, steps);
  const std::vector<int32_t> all = steps.outputs;
  for (size_t tokens = 1; tokens <= 20; ++tokens)
    for (size_t outputs = 1; outputs <= tokens; ++outputs) {
      const core::Batch batch{std::span(steps.tokens).first(tokens), std::span(steps.positions).first(tokens),
                              std::span(steps.streams).first(tokens), std::span(all).first(outputs)};
      executor->forward(batch);
      const std::span<const float> row = executor->logits(static_cast<int64_t>(outputs) - 1);
      CHECK(tests::nmse(row, std::span(first).subspan((outputs - 1) * row.size(), row.size())) < kFast);
    }
}

TEST_CASE("CUDA: tiny encoders make rows of sounds and pictures as llama.cpp does") {
  REQUIRE_DEVICE();
  for (const tests::GoldenCase& of : tests::golden_cases("mtmd"))
    for (const bool exact : {true, false}) {
      CAPTURE(of.name);
      CAPTURE(exact);
      const tests::GoldenRows rows = tests::rows_of(of, {.threads = 1, .gpu = 0, .exact = exact});
      REQUIRE(rows.on_gpu);
      CHECK(rows.tokens == of.tokens());
      const double error = tests::nmse(rows.values, of.rows());
      CHECK(error <= (exact ? 1e-6 : kFastPicture));
      MESSAGE(of.name, exact ? ", exact: NMSE " : ", fast: NMSE ", error);
    }
}

TEST_CASE("CUDA: tiny models of every projector have the reference's embeddings and logits") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : tests::share_of(tests::known_vision_cases(), 1)) {
    CAPTURE(name);
    const tests::VisionCase c(name);
    for (const bool exact : {true, false}) {
      CAPTURE(exact);
      tests::OpenedVision opened(c, exact, quant::Type::F32, 0);
      const engine::PicturePrompt prompt = opened.prompt();
      REQUIRE(opened.reader.on_gpu());
      const auto [rows, embeddings] = tests::rows_to_compare(c, prompt);
      const double error = tests::nmse(rows, embeddings);
      CHECK(error <= (exact ? c.bound("spread") : kFastPicture));
      if (c.has_wrong_tiles()) continue;
      for (const int64_t most : {std::ssize(prompt.tokens), int64_t{3}}) {
        const std::vector<float> logits = tests::vision_logits(opened, prompt, most, exact, tests::make_executor);
        const double logits_error = tests::nmse(logits, c.logits());
        CHECK(logits_error <= (exact ? c.bound("spread_logits") : kFastPicture));
        MESSAGE(name, std::string(exact ? ", exact" : ", fast"), ": NMSE of embeddings ", error, ", of logits ",
                logits_error);
      }
    }
  }
}
