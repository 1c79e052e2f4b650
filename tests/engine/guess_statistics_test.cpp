// Gain of drafts for edited texts, and the distribution of sampled tokens.
#include "engine/guess_runs.h"
#include "engine/speculation/ngram_drafter.h"
#include "kernels/cpu/executor/executor.h"
#include "models/guide.h"
#include "support/reference.h"
#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

using namespace ridge;

namespace {

// Drafts the last token's successors.
class NextTokens final : public engine::Drafter {
 public:
  explicit NextTokens(int32_t vocab) : vocab_(vocab) {}
  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t> tokens) override {
    last_ = tokens.back();
    return 0;
  }
  std::vector<int32_t> draft(int64_t most) override {
    std::vector<int32_t> guesses;
    for (int32_t i = 1; i <= std::min<int64_t>(most, 3); ++i) guesses.push_back((last_ + i) % vocab_);
    return guesses;
  }

 private:
  int32_t vocab_, last_ = 0;
};

// For samples of equal size.
double chi_square(std::span<const int64_t> a, std::span<const int64_t> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] + b[i] > 0) sum += std::pow(static_cast<double>(a[i] - b[i]), 2) / static_cast<double>(a[i] + b[i]);
  return sum;
}

// Times of an 8B in Q4_K_M on an H200 (docs/speculation.md), interpolated linearly.
double step_seconds(int64_t tokens) {
  constexpr std::array<std::pair<double, double>, 8> kMeasured = {
      {{1, 669}, {2, 908}, {3, 1075}, {4, 1412}, {6, 2064}, {8, 2698}, {12, 3575}, {16, 4577}}};
  const auto count = static_cast<double>(tokens);
  size_t i = 1;
  while (i + 1 < kMeasured.size() && kMeasured[i].first < count) ++i;
  const auto [low, low_rate] = kMeasured[i - 1];
  const auto [high, high_rate] = kMeasured[i];
  const double from = low / low_rate, to = high / high_rate;
  return from + (to - from) * (count - low) / (high - low);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

std::string edited(const std::string& text, std::mt19937& random) {
  std::vector<std::string> lines = lines_of(text);
  const auto at = lines.begin() + static_cast<std::ptrdiff_t>(lines.size() / 4 + random() % (lines.size() / 2));
  switch (random() % 3) {
  case 0: lines.insert(at, "  check_that_nothing_is_missing(options, 17);\n"); break;
  case 1: lines.erase(at); break;
  default: *at = "  const auto renamed = make_another_one(" + std::to_string(random() % 1000) + ");\n";
  }
  std::string result;
  for (const std::string& line : lines) result += line;
  return result;
}

struct Forced {
  int64_t steps = 0, right = 0, tokens = 0;
  double seconds = 0;
};

// Feeds the target and drafts before each token.
Forced force(const std::vector<int32_t>& prompt, const std::vector<int32_t>& target) {
  engine::Speculator speculator(std::make_unique<engine::NgramDrafter>(), 0, [] { return 0.0; });
  std::vector<int32_t> text = prompt;
  speculator.begin(text);
  Forced result;
  for (size_t done = 0; done < target.size();) {
    const auto left = static_cast<int64_t>(target.size() - done) - 1;
    std::vector<int32_t> guesses;
    if (speculator.draft_length(text, 1, std::min(left, engine::kMaxGuesses)) > 0) guesses = speculator.draft();
    const double seconds = step_seconds(std::ssize(guesses) + 1);
    speculator.record_step_time(std::ssize(guesses) + 1, seconds);
    const auto right = std::ranges::mismatch(guesses, std::span(target).subspan(done)).in1 - guesses.begin();
    if (!guesses.empty()) speculator.record_acceptance(std::ssize(guesses), right);
    text.insert(text.end(), target.begin() + static_cast<std::ptrdiff_t>(done),
                target.begin() + static_cast<std::ptrdiff_t>(done) + right + 1);
    done += right + 1;
    ++result.steps;
    result.right += right;
    result.seconds += seconds;
  }
  result.tokens = std::ssize(target);
  return result;
}

} // namespace

TEST_CASE("where a file is given back with one change, more than four guesses a step are right") {
  const gguf::File guide = models::open_guide();
  const auto tokenizer = text::Tokenizer::from_file(guide);
  std::mt19937 random(11);
  Forced all;
  for (const char* file :
       {"engine/chat/answer.cpp", "engine/chat/conversation.cpp", "engine/options.cpp", "gguf/writer.cpp",
        "core/sampler.cpp", "measure/bench_plan.cpp", "app/cli/run.cpp", "docs/speculation.md"}) {
    const std::string text = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/" + file);
    const Forced one = force(tokenizer->encode("Change one line of this file:\n" + text + "\nThe whole file:\n", {}),
                             tokenizer->encode(edited(text, random), {}));
    all.steps += one.steps;
    all.right += one.right;
    all.tokens += one.tokens;
    all.seconds += one.seconds;
  }
  const double right_per_step = static_cast<double>(all.right) / static_cast<double>(all.steps);
  const double gain = static_cast<double>(all.tokens) * step_seconds(1) / all.seconds;
  MESSAGE(right_per_step, " right guesses a step; ", gain, " times the speed of plain decoding, reckoned");
  CHECK(right_per_step >= 4);
  CHECK(gain > 2);
}

TEST_CASE("100,000 tokens sampled with guesses are distributed as without") {
  constexpr int32_t kVocab = 8;
  constexpr int64_t kTokens = 4, kAnswers = 25'000;
  tests::RandomProgram model(5);
  tests::RandomProgram::Shape shape;
  shape.layers = 1;
  shape.width = shape.hidden = 32;
  shape.heads = shape.kv_heads = 1;
  shape.k_dim = shape.v_dim = shape.rotated = 16;
  shape.vocab = kVocab;
  model.transformer(shape, quant::Type::F32, quant::Type::F32);
  core::ExecutorConfig config = tests::exact_config();
  config.threads = 1;
  const auto executor = kernels::cpu::make_cpu_executor(model.program, config);
  const std::vector<int32_t> prompt = {1, 2, 3};

  using Counts = std::array<std::array<int64_t, kVocab>, kTokens>;
  int64_t guessed = 0, right = 0;
  const auto count = [&](int64_t first_seed, bool guesses) {
    Counts counts{};
    for (int64_t seed = first_seed; seed < first_seed + kAnswers; ++seed) {
      auto speculator = std::make_unique<engine::Speculator>(std::make_unique<NextTokens>(kVocab), 3);
      engine::Session session(*executor, model.program, guesses ? std::move(speculator) : nullptr);
      session.generate(tests::request_of(prompt, kTokens, {.seed = seed, .bias = {}}));
      for (int64_t i = 0; i < kTokens; ++i) ++counts[i][session.tokens()[prompt.size() + i]];
      if (!guesses) continue;
      guessed += session.guesses().all_made();
      right += session.guesses().all_right();
    }
    return counts;
  };
  const Counts plain = count(0, false), others = count(kAnswers, false), with_guesses = count(2 * kAnswers, true);
  MESSAGE(right, " of ", guessed, " guesses were right");
  CHECK(right > kAnswers / 10);
  constexpr double kBound = 29.9; // 7 degrees of freedom, p = 1/10,000
  for (int64_t i = 0; i < kTokens; ++i) {
    CAPTURE(i);
    CHECK(chi_square(plain[i], others[i]) < kBound);
    CHECK(chi_square(plain[i], with_guesses[i]) < kBound);
  }
}
