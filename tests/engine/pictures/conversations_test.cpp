// Pictures in scheduler prompts.
#include "engine/pictures/open_pictures.h"
#include "engine/pictures/picture_shelf.h"
#include "engine/sequences/session.h"
#include "text/jinja/tainted_text.h"

#include "support/numerics.h"
#include "support/recipes/vision_runs.h"

using namespace ridge;

namespace {

core::ExecutorConfig exact_config(int64_t batch, int64_t streams = 1) {
  core::ExecutorConfig config = {
      .context = 200, .streams = streams, .max_batch = batch, .max_outputs = 4, .threads = 1};
  config.k_type = config.v_type = core::KvType::f32;
  config.exact = true;
  return config;
}

engine::SequenceRequest request_of(const engine::PicturePrompt& prompt, int64_t limit) {
  engine::SequenceRequest request;
  request.prompt = prompt.tokens;
  request.pictures = prompt.pictures;
  request.limit = limit;
  request.sampling.temp = 0;
  return request;
}

engine::PicturePrompt two_pictures(tests::OpenedVision& opened) {
  const std::vector<media::Medium> pictures = {opened.c.picture(), tests::formula_picture(70, 50, 9)};
  return engine::picture_prompt(*opened.tokenizer, opened.reader, "a <__media__> b <__media__> c", pictures);
}

// One with bidirectional attention within pictures, one with 2-D positions.
constexpr const char* kCases[] = {"gemma3", "qwen3vl-deep"};

} // namespace

TEST_CASE("a session evaluates pictures in pieces, keeps them, and goes back behind them") {
  REQUIRE_REFERENCE();
  for (const char* name : kCases)
    for (const int64_t batch : {200, 24}) {
      CAPTURE(name);
      CAPTURE(batch);
      const tests::VisionCase c(name);
      tests::OpenedVision opened(c);
      const engine::PicturePrompt prompt = two_pictures(opened);
      const std::vector<float> all = tests::vision_logits(opened, prompt, std::ssize(prompt.tokens));
      const std::vector<float> last(all.end() - opened.program.vocab, all.end());
      const auto executor = kernels::cpu::make_cpu_executor(opened.program, exact_config(batch));
      engine::Session session(*executor, opened.program);
      const auto logits_behind = [&](const engine::PicturePrompt& asked) {
        CHECK(session.generate(request_of(asked, 0)) == engine::StopReason::limit);
        const std::span<const float> logits = session.logits();
        return std::vector<float>(logits.begin(), logits.end());
      };
      CHECK(tests::nmse(logits_behind(prompt), last) < 1e-10);
      CHECK(session.prompt_usage().tokens == std::ssize(prompt.tokens));
      CHECK(tests::nmse(logits_behind(prompt), last) < 1e-10);
      CHECK(session.prompt_usage().tokens == 1);
      engine::PicturePrompt other = prompt;
      other.tokens.back() = other.tokens[0];
      logits_behind(other);
      CHECK(tests::nmse(logits_behind(prompt), last) < 1e-10);
      CHECK(session.prompt_usage().tokens <= 2);
      // Bidirectional pictures are kept whole or not at all.
      session.keep(prompt.pictures.places()[1].first + 3);
      CHECK(tests::nmse(logits_behind(prompt), last) < 1e-10);
    }
}

TEST_CASE("a text goes on behind pictures as its logits say") {
  REQUIRE_REFERENCE();
  for (const char* name : kCases) {
    CAPTURE(name);
    const tests::VisionCase c(name);
    tests::OpenedVision opened(c);
    engine::PicturePrompt prompt = opened.prompt();
    const auto executor = kernels::cpu::make_cpu_executor(opened.program, exact_config(200));
    engine::Session session(*executor, opened.program);
    constexpr int64_t kTokens = 5;
    CHECK(session.generate(request_of(prompt, kTokens)) == engine::StopReason::limit);
    const std::vector<int32_t> answer(session.tokens().end() - kTokens, session.tokens().end());
    for (const int32_t token : answer) {
      const std::vector<float> logits = tests::vision_logits(opened, prompt, std::ssize(prompt.tokens));
      const auto row = std::span(logits).last(opened.program.vocab);
      CHECK(token == std::ranges::max_element(row) - row.begin());
      prompt.tokens.push_back(token);
    }
  }
}

TEST_CASE("sequences with pictures and without share steps") {
  REQUIRE_REFERENCE();
  for (const char* name : kCases) {
    CAPTURE(name);
    const tests::VisionCase c(name);
    tests::OpenedVision opened(c);
    std::vector<engine::PicturePrompt> prompts = {two_pictures(opened), {}, opened.prompt()};
    prompts[1].tokens.assign(30, 70);
    std::vector<std::vector<int32_t>> alone, together;
    constexpr int64_t kTokens = 6;
    for (const engine::PicturePrompt& prompt : prompts) {
      const auto executor = kernels::cpu::make_cpu_executor(opened.program, exact_config(200));
      engine::Session session(*executor, opened.program);
      session.generate(request_of(prompt, kTokens));
      alone.emplace_back(session.tokens().begin(), session.tokens().end());
    }
    const auto executor = kernels::cpu::make_cpu_executor(opened.program, exact_config(40, 3));
    engine::Scheduler scheduler(*executor, opened.program, nullptr, {}, {}, engine::Scheduler::Driver::caller);
    std::vector<std::shared_ptr<engine::Sequence>> sequences;
    for (const engine::PicturePrompt& prompt : prompts) {
      sequences.push_back(scheduler.submit(request_of(prompt, kTokens)));
      scheduler.advance();
    }
    while (scheduler.advance()) continue;
    for (const auto& sequence : sequences) {
      while (sequence->next()) continue;
      together.emplace_back(sequence->tokens().begin(), sequence->tokens().end());
    }
    CHECK(together == alone);
  }
}

TEST_CASE("what a batch cannot hold, and tokens of no picture, are refused") {
  REQUIRE_REFERENCE();
  const tests::VisionCase c("gemma3");
  tests::OpenedVision opened(c);
  const auto executor = kernels::cpu::make_cpu_executor(opened.program, exact_config(8));
  engine::Session session(*executor, opened.program);
  CHECK_THROWS_WITH_AS(session.generate(request_of(opened.prompt(), 1)), doctest::Contains("raise -ub"), core::Error);
  engine::PicturePrompt prompt = opened.prompt();
  prompt.pictures = {};
  CHECK_THROWS_WITH_AS(session.generate(request_of(prompt, 1)), doctest::Contains("outside the vocabulary"),
                       core::Error);
}

TEST_CASE("a shelf encodes a picture once, and only its own marks are pictures") {
  REQUIRE_REFERENCE();
  const tests::VisionCase c("gemma3");
  const tests::OpenedVision opened(c);
  engine::PictureShelf shelf(
      std::make_unique<engine::PictureReader>(opened.path("mmproj"), engine::PictureReader::Options{.threads = 1}), 0);
  const auto add = [&](const media::Picture& picture) {
    const std::string file = fmt::format("P6 {} {} 255\n", picture.width, picture.height) +
                             std::string(picture.rgb.begin(), picture.rgb.end());
    return shelf.add(std::as_bytes(std::span(file)), "picture");
  };
  const auto first = add(c.picture()), again = add(c.picture()), other = add(tests::formula_picture(40, 40, 3));
  CHECK(first == again);
  CHECK(first->mark != other->mark);
  CHECK(first->tokens == 16);
  CHECK(first->seconds > 0);
  const auto tokens_of = [&](const text::jinja::TaintedText& text) {
    return opened.tokenizer->encode(text.bytes(), {.add_special = true, .parse_special = true});
  };
  const auto prompt_of = [&](const std::string& text) {
    return shelf.prompt_of(*opened.tokenizer, text::jinja::TaintedText(text), tokens_of);
  };
  const auto prompt = prompt_of("a " + first->mark + " b " + other->mark + first->mark);
  REQUIRE(prompt.pictures.places().size() == 3);
  CHECK(prompt.pictures.places()[0].tile == prompt.pictures.places()[2].tile);
  CHECK(!shelf.has_mark("<picture 0123456789abcdef01234567 0123456789abcdef0123456789abcdef>"));
  std::string unknown = first->mark;
  unknown[unknown.size() - 2] ^= 1;
  CHECK_THROWS_WITH_AS(prompt_of(unknown), doctest::Contains("send it again"), core::Error);
}
