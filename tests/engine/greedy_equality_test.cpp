// Drafts do not change greedy answers, for every kind of KV cache, in exact mode on the CPU. RIDGE_GREEDY_TOKENS:
// tokens per drafter and model (default: 120).
#include "engine/guess_runs.h"
#include "engine/head_runs.h"
#include "engine/speculation/model_drafter.h"
#include "engine/speculation/ngram_drafter.h"
#include "kernels/cpu/executor/executor.h"
#include "support/drafts/dflash_pair.h"
#include "support/drafts/draft_model.h"

#include <cstdlib>
#include <functional>

using namespace ridge;
using kernels::cpu::make_cpu_executor;
using tests::DraftModel;

namespace {

constexpr int64_t kPrompt = 12, kAnswer = 120, kContext = kPrompt + kAnswer + engine::kMaxGuesses + 1;
constexpr int32_t kVocab = 48;

int64_t wanted_tokens() {
  const char* const wanted = std::getenv("RIDGE_GREEDY_TOKENS");
  return wanted ? std::atoll(wanted) : kAnswer;
}

using Answers = std::vector<std::vector<int32_t>>;

std::vector<int32_t> prompt_of(int32_t number) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < kPrompt; ++i) prompt.push_back((11 * number * number + 7 * i * i + 3 * i + number) % kVocab);
  return prompt;
}

// `drafter` makes the drafter of an answer by number; may be empty.
Answers answers(const engine::LoadedModel& model,
                const std::function<std::unique_ptr<engine::Drafter>(size_t)>& drafter, int64_t length) {
  core::SamplerParams greedy;
  greedy.temp = 0;
  Answers all;
  for (int64_t tokens = 0; tokens < wanted_tokens(); tokens += kAnswer) {
    std::unique_ptr<engine::Speculator> speculator;
    if (drafter) speculator = std::make_unique<engine::Speculator>(drafter(all.size()), length);
    all.push_back(tests::generated(*model.executor, model.program, prompt_of(static_cast<int32_t>(all.size())), greedy,
                                   kAnswer, std::move(speculator)));
    CHECK(all.back().size() == kPrompt + kAnswer);
  }
  return all;
}

void check_drafters(const DraftModel& made) {
  CAPTURE(std::string(made.shape.architecture));
  engine::LoadedModel model = engine::open_model(made.open());
  tests::start(model, make_cpu_executor, 1, kContext);
  REQUIRE(model.program.vocab == kVocab);
  const Answers plain = answers(model, nullptr, 0);
  const auto check = [&](const char* who, const Answers& found) {
    CAPTURE(who);
    for (size_t i = 0; i < plain.size(); ++i) {
      CAPTURE(i);
      tests::check_same(found[i], plain[i]);
    }
  };
  for (const int64_t length : {0, 3}) { // 0: adaptive
    CAPTURE(length);
    check("ngram", answers(
                       model, [](size_t) { return std::make_unique<engine::NgramDrafter>(); }, length));
    const auto small = [](size_t) {
      tests::EaglePair other;
      other.model_layers = 1;
      auto loaded = std::make_unique<engine::LoadedModel>(engine::open_model(other.model()));
      tests::start(*loaded, make_cpu_executor, 1, kContext);
      return std::make_unique<engine::ModelDrafter>(std::move(loaded), kVocab);
    };
    check("draft", answers(model, small, length));
    const auto half_right = [&](size_t i) {
      return std::make_unique<tests::ScriptedDrafter>(plain[i], 0.6, kVocab, i + 1);
    };
    check("scripted", answers(model, half_right, length));
    const engine::LoadedModel mtp = tests::open_with_heads(made.open(), make_cpu_executor, 1, kContext);
    check("mtp", answers(
                     mtp, [&](size_t) { return std::make_unique<engine::HeadDrafter>(mtp); }, length));
    tests::EaglePair pair;
    pair.layers = {0, 1, 2};
    const engine::LoadedModel eagle = tests::open_with_eagle(made.open(), pair.head(), make_cpu_executor, 1, kContext);
    check("eagle3", answers(
                        eagle, [&](size_t) { return std::make_unique<engine::HeadDrafter>(eagle); }, length));
    tests::DflashPair block;
    block.layers = {0, 1, 2};
    const engine::LoadedModel dflash =
        tests::open_with_dflash(made.open(), block.head(), make_cpu_executor, 1, kContext);
    check("dflash", answers(
                        dflash, [&](size_t) { return engine::make_head_drafter(dflash); }, length));
  }
}

} // namespace

TEST_CASE("greedy answers of a dense model are the same with every drafter") {
  check_drafters(DraftModel::attention());
}

TEST_CASE("greedy answers of a model with windows are the same with every drafter") {
  check_drafters(DraftModel::chained());
}

TEST_CASE("greedy answers of a model with recurrent layers are the same with every drafter") {
  check_drafters(DraftModel::recurrent());
}

TEST_CASE("greedy answers of a model with experts are the same with every drafter") {
  DraftModel experts = DraftModel::attention();
  experts.shape.experts = 4;
  experts.shape.experts_used = 2;
  experts.shape.dense_layers = 1;
  experts.shape.dense_ffn_width = 96;
  check_drafters(experts);
}
