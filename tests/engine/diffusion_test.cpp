// The canvas schedule, and a model compared with a calculation.
#include "core/error.h"
#include "engine/chat/answer.h"
#include "engine/diffusion/canvas.h"
#include "engine/diffusion/canvas_text.h"
#include "engine/speculation/speculation.h"
#include "kernels/cpu/executor/executor.h"
#include "support/numerics.h"
#include "support/recipes/recipe.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace ridge;
using core::FillOrder;
using engine::Canvas;
using engine::Diffusion;

namespace {

constexpr int32_t kMask = 99;

Diffusion filling(int64_t steps, int64_t block, bool shifted = false) {
  return {kMask, shifted, {steps, block, FillOrder::confidence}};
}

// Later places have higher confidence; a place's number is its token.
std::vector<Canvas::Guess> later_is_surer(const Canvas& canvas) {
  std::vector<Canvas::Guess> guesses;
  for (const int64_t place : canvas.open())
    guesses.push_back({static_cast<int32_t>(place), static_cast<double>(place)});
  return guesses;
}

using Places = std::vector<int64_t>;
using Tokens = std::vector<int32_t>;

} // namespace

TEST_CASE("a canvas decides an equal share in each step, the surest first, block after block") {
  const Tokens prompt = {7, 8};
  Canvas whole(prompt, 5, filling(2, 0), 1);
  CHECK(whole.open() == Places{0, 1, 2, 3, 4});
  CHECK(whole.outputs() == Tokens{2, 3, 4, 5, 6});
  whole.decide(later_is_surer(whole));
  CHECK(whole.open() == Places{0, 1});
  CHECK(whole.first_open() == 0);
  CHECK(Tokens(whole.tokens().begin(), whole.tokens().end()) == Tokens{7, 8, kMask, kMask, 2, 3, 4});
  whole.decide(later_is_surer(whole));
  CHECK(whole.done());
  CHECK(whole.first_open() == 5);

  Canvas blocks(prompt, 5, filling(0, 2, true), 1);
  CHECK(blocks.outputs() == Tokens{1, 2});
  blocks.decide(later_is_surer(blocks));
  CHECK(blocks.open() == Places{0});
  blocks.decide(later_is_surer(blocks));
  CHECK(blocks.first_open() == 2);
  CHECK(blocks.open() == Places{2, 3});
  for (int i = 0; i < 3; ++i) blocks.decide(later_is_surer(blocks));
  CHECK(blocks.done());

  // Limits the logits per step.
  const Canvas many(prompt, 2 * engine::kMaxOpenPlaces, filling(0, 0), 1);
  CHECK(std::ssize(many.open()) == engine::kMaxOpenPlaces);
}

TEST_CASE("how sure a row is of its token: by its probability, by its margin, by the entropy") {
  const std::vector<float> row = {0, std::log(2.0f), std::log(5.0f)}; // 1/8, 2/8, 5/8
  CHECK(engine::sureness(row, 2, FillOrder::confidence, 0) == doctest::Approx(5.0 / 8));
  CHECK(engine::sureness(row, 1, FillOrder::margin, 0) == doctest::Approx(-3.0 / 8));
  const double entropy = -(std::log(1.0 / 8) + 2 * std::log(2.0 / 8) + 5 * std::log(5.0 / 8)) / 8;
  CHECK(engine::sureness(row, 0, FillOrder::entropy, 0) == doctest::Approx(-entropy));
  CHECK(engine::sureness(row, 0, FillOrder::random, 0.25) == 0.25);
}

TEST_CASE("a model that writes by diffusion decides what its logits are surest of, step by step") {
  REQUIRE_REFERENCE();
  for (const char* name : {"llada-dense", "dream-dense", "llada-moe-moe", "rnd1-moe"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    core::ExecutorConfig config;
    config.context = config.max_batch = config.max_outputs = 32;
    config.streams = 2;
    const bool shifted = std::string_view(name).starts_with("dream");
    const auto vocab = program.vocab;
    engine::SequenceRequest request;
    request.prompt = {3, 1, 4, 1, 5};
    request.limit = 12;
    request.sampling.temp = 0;
    request.diffusion = filling(6, 6, shifted);

    auto executor = kernels::cpu::make_cpu_executor(program, config);
    Tokens text = request.prompt;
    text.resize(request.prompt.size() + 12, kMask);
    Tokens positions(text.size());
    std::iota(positions.begin(), positions.end(), 0);
    for (int step = 0; step < 6; ++step) {
      executor->forward({.tokens = text, .positions = positions, .outputs = positions});
      struct Place {
        double share;
        size_t at;
        int32_t token;
      };
      std::vector<Place> places;
      const size_t begin = request.prompt.size() + (step < 3 ? 0 : 6);
      for (size_t at = begin; at < begin + 6; ++at) {
        if (text[at] != kMask) continue;
        const auto logits = executor->logits(static_cast<int64_t>(at) - (shifted ? 1 : 0));
        int32_t best = 0;
        double sum = 0;
        for (int32_t token = 0; token < vocab; ++token)
          if (token != kMask && (best == kMask || logits[token] > logits[best])) best = token;
        for (int32_t token = 0; token < vocab; ++token)
          if (token != kMask) sum += std::exp(static_cast<double>(logits[token]) - logits[best]);
        places.push_back({1 / sum, at, best});
      }
      std::ranges::stable_sort(places, std::greater<>(), &Place::share);
      for (int i = 0; i < 2; ++i) text[places[i].at] = places[i].token;
    }

    executor = kernels::cpu::make_cpu_executor(program, config);
    engine::Scheduler scheduler(*executor, program, nullptr, {}, {}, engine::Scheduler::Driver::caller);
    std::vector<int> canvases(2);
    std::vector<std::shared_ptr<engine::Sequence>> sequences;
    for (int& count : canvases) {
      engine::SequenceRequest same;
      same.prompt = request.prompt;
      same.limit = request.limit;
      same.sampling = request.sampling;
      same.diffusion = request.diffusion;
      same.on_canvas = [&count](std::span<const int32_t> answer) {
        ++count;
        CHECK(answer.size() == 12);
      };
      sequences.push_back(scheduler.submit(std::move(same)));
    }
    while (scheduler.advance()) continue;
    for (const auto& sequence : sequences) {
      CHECK(Tokens(sequence->tokens().begin(), sequence->tokens().end()) == text);
      CHECK(sequence->stop() == engine::StopReason::limit);
      CHECK(sequence->generation_usage().tokens == 12);
      CHECK(sequence->prompt_usage().tokens == 5);
      CHECK(sequence->generation_usage().bytes > 0);
    }
    CHECK(canvases == std::vector<int>{6, 6});
    CHECK(scheduler.counts().steps == 12);
  }
}

namespace {

struct Filled {
  tests::TemporaryFolder folder;
  api::ModelOptions options;
  engine::LoadedModel model;
  std::unique_ptr<engine::Session> session;

  explicit Filled(int64_t mask = kLastToken) : options(written(mask)), model(engine::open_generating(options)) {
    engine::start_executor(model, engine::generating_config(options, model.program), "cpu");
    session = std::make_unique<engine::Session>(*model.executor, model.program);
  }

  static constexpr int64_t kLastToken = 5 + 256 + 1 + 94 + 7; // a TinyModel with one more control token

  api::ModelOptions written(int64_t mask) const {
    tests::TinyModel tiny;
    tiny.architecture = "llada";
    tiny.controls = {"<|mask|>"};
    tiny.further.set("diffusion.shift_logits", false);
    if (mask >= 0) tiny.further.set("tokenizer.ggml.mask_token_id", static_cast<uint32_t>(mask));
    tiny.write(folder / "llada.gguf");
    api::ModelOptions made;
    made.model = folder / "llada.gguf";
    made.device = "cpu";
    return made;
  }
};

} // namespace

TEST_CASE("a forming answer is shown with a block for each undecided token, without control characters") {
  Filled filled;
  const text::Tokenizer& tokenizer = filled.model.need_tokenizer();
  constexpr auto kOpen = static_cast<int32_t>(Filled::kLastToken);
  const auto byte = [](char c) { return 5 + static_cast<unsigned char>(c); };
  const auto shown = [&](Tokens answer) { return engine::canvas_text(tokenizer, kOpen, answer); };
  CHECK(shown({kOpen, kOpen, kOpen}) == "\u2591");
  CHECK(shown({byte('a'), kOpen, kOpen, byte('b'), kOpen, kOpen}) == "a\u2591\u2591b\u2591");
  CHECK(shown({byte('a'), byte('\x1b'), byte('\n'), byte('\xff'), byte('b')}) == "a\nb");
  CHECK(shown({}).empty());
}

TEST_CASE("an answer that is filled in streams from its beginning, and ends with the end of its turn") {
  Filled filled;
  api::GenerateRequest request;
  request.sampling.max_tokens = 40;
  request.sampling.params.seed = 5;
  request.sampling.params.diffusion = {10, 20, FillOrder::entropy};
  engine::Answerer answerer(filled.model, *filled.session, request);
  int steps = 0;
  answerer.on_canvas = [&](std::span<const int32_t>) { ++steps; };
  const Tokens prompt = {1, 20, 30};
  std::string streamed;
  const engine::Answer answer = answerer.answer(
      {.prompt = prompt}, [&](std::string_view text, bool) { streamed += text; }, nullptr);
  CHECK(streamed == answer.content);
  CHECK(steps <= 10);
  if (answer.stop == engine::StopReason::limit) CHECK(answer.tokens == 40);
  if (answer.stop == engine::StopReason::end_of_turn) CHECK(answer.tokens <= 40);
  CHECK(answer.content.find("<|mask|>") == std::string::npos);

  request.sampling.grammar = "root ::= \"a\"";
  CHECK_THROWS_WITH_AS(engine::Answerer(filled.model, *filled.session, request)
                           .answer(
                               {.prompt = prompt}, [](std::string_view, bool) {}, nullptr),
                       doctest::Contains("a diffusion model"), Error);
  CHECK_THROWS_WITH_AS(engine::open_model(filled.folder / "llada.gguf"), doctest::Contains("is a diffusion model"),
                       Error);

  request.sampling.grammar.clear();
  Filled without(-1);
  CHECK_THROWS_WITH_AS(engine::Answerer(without.model, *without.session, request), doctest::Contains("mask_token_id"),
                       Error);
  Filled beyond(1 << 20);
  CHECK_THROWS_WITH_AS(engine::Answerer(beyond.model, *beyond.session, request)
                           .answer(
                               {.prompt = prompt}, [](std::string_view, bool) {}, nullptr),
                       doctest::Contains("mask token 1048576"), Error);
}
