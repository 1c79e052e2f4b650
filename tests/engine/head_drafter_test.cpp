// Draft heads compared with their definition.
#include "engine/guess_runs.h"
#include "engine/head_runs.h"
#include "kernels/cpu/executor/executor.h"
#include "support/drafts/draft_model.h"
#include "support/drafts/eagle_pair.h"
#include "support/numerics.h"
#include "support/recipes/draft_runs.h"
#include "support/temporary_folder.h"

using namespace ridge;
using kernels::cpu::make_cpu_executor;
using tests::DraftModel;
using tests::EaglePair;

namespace {

std::vector<core::SamplerParams> greedy_and_sampled() {
  std::vector<core::SamplerParams> params(2);
  params[0].temp = 0;
  params[1].seed = 7;
  params[1].temp = 2;
  params[1].repeat_penalty = 1.2f;
  params[1].repeat_last_n = 16;
  return params;
}

std::vector<DraftModel> draft_models() {
  return {DraftModel::attention(), DraftModel::recurrent(), DraftModel::chained()};
}

std::unique_ptr<engine::Speculator> watched(const engine::LoadedModel& model, int64_t length) {
  return std::make_unique<engine::Speculator>(std::make_unique<tests::WatchedHeads>(model, make_cpu_executor), length);
}

void check_answers(const engine::LoadedModel& model, std::span<const int32_t> prompt, int64_t count,
                   std::vector<int64_t> lengths) {
  for (const core::SamplerParams& params : greedy_and_sampled()) {
    CAPTURE(params.temp);
    const std::vector<int32_t> plain = tests::generated(*model.executor, model.program, prompt, params, count);
    for (const int64_t length : lengths) {
      CAPTURE(length);
      tests::check_same(tests::generated(*model.executor, model.program, prompt, params, count, watched(model, length)),
                        plain);
    }
  }
}

// A conversation that goes back. Returns all turns' tokens.
std::vector<int32_t> converse(const engine::LoadedModel& model, std::unique_ptr<engine::Speculator> speculator) {
  engine::Session session(*model.executor, model.program, std::move(speculator));
  std::vector<int32_t> tokens, all;
  const auto turn = [&](int64_t limit) {
    session.generate(tests::request_of(tokens, limit));
    tokens.assign(session.tokens().begin(), session.tokens().end());
    all.insert(all.end(), tokens.begin(), tokens.end());
  };
  const auto say = [&](int32_t count) {
    for (int32_t i = 0; i < count; ++i) tokens.push_back((7 * i * i + 3 * i + count) % 48);
  };
  say(30);
  const std::vector<int32_t> first_prompt = tokens;
  turn(9);
  const std::vector<int32_t> first = tokens;
  say(4);
  const std::vector<int32_t> second_prompt = tokens;
  turn(12);
  tokens = second_prompt;
  turn(5);
  tokens = first;
  say(3);
  turn(6);
  tokens.erase(tokens.begin() + 5, tokens.begin() + 25);
  say(2);
  turn(7);
  tokens = first_prompt;
  tokens.resize(12);
  say(5);
  turn(4);
  tokens.pop_back();
  say(1);
  turn(3);
  tokens = {5};
  turn(4);
  return all;
}

} // namespace

TEST_CASE("draft heads guess what they compute, and the answer is the one without them") {
  for (const DraftModel& model : draft_models()) {
    CAPTURE(std::string(model.shape.architecture));
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
    check_answers(tests::open_with_heads(model.open(), make_cpu_executor), prompt, 50, {1, 5});
  }
}

TEST_CASE("tiny models with draft heads say the same with their guesses as without") {
  REQUIRE_REFERENCE();
  int64_t checked = 0;
  for (const std::string& name : tests::draft_recipes()) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    if (recipe.document["spread"].get<double>() > 1e-7) continue; // amplifies rounding
    std::vector<int32_t> prompt = recipe.ids();
    prompt.resize(9);
    check_answers(tests::open_with_heads(recipe.open(), make_cpu_executor), prompt, 24, {3});
    ++checked;
  }
  CHECK(checked >= 8);
}

TEST_CASE("draft heads guess what they compute in conversations that go back") {
  for (const DraftModel& made : draft_models()) {
    CAPTURE(std::string(made.shape.architecture));
    const engine::LoadedModel model = tests::open_with_heads(made.open(), make_cpu_executor);
    const std::vector<int32_t> plain = converse(model, nullptr);
    for (const int64_t length : {0, 1, 2, 4}) { // 0: adaptive
      CAPTURE(length);
      CHECK(converse(model, watched(model, length)) == plain);
    }
  }
}

TEST_CASE("a draft head goes on wherever its text and its rows stop, rows that it never got being 0") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const engine::LoadedModel model = tests::open_with_heads(DraftModel::attention().open(), make_cpu_executor, 2);
  using engine::HeadDrafter;
  tests::check_any_stops<HeadDrafter>(
      model, seed, 48, 140,
      [](HeadDrafter& heads, HeadDrafter& fresh, int64_t, const auto&) { CHECK(heads.draft(3) == fresh.draft(3)); });
}

TEST_CASE("EAGLE-3 heads guess what they compute, from a text's second token on, and the answer is the one without") {
  for (const EaglePair& pair : EaglePair::kinds()) {
    CAPTURE(pair.width);
    CAPTURE(pair.own_vocab);
    const engine::LoadedModel model = tests::open_with_eagle(pair.model(), pair.head(), make_cpu_executor);
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
    check_answers(model, prompt, 50, {1, 5});
    check_answers(model, std::span(prompt).first(1), 12, {2});
    const std::vector<int32_t> plain = converse(model, nullptr);
    for (const int64_t length : {0, 1, 4}) {
      CAPTURE(length);
      CHECK(converse(model, watched(model, length)) == plain);
    }
  }
}

TEST_CASE("--draft-model opens an EAGLE-3 head beside its model, and one of another model is refused with one line") {
  const tests::TemporaryFolder folder;
  const auto write = [&](const char* name, const std::vector<std::byte>& image) {
    return folder.write(name, {reinterpret_cast<const char*>(image.data()), image.size()});
  };
  const EaglePair pair;
  api::ModelOptions options;
  options.model = write("model.gguf", *pair.model_image());
  options.draft_model = write("head.gguf", *pair.head_image());
  for (const char* who : {"auto", "draft"}) {
    options.speculation = who;
    const engine::LoadedModel model = engine::open_generating(options);
    REQUIRE(model.heads.size() == 1);
    CHECK(model.program.hidden >= 0);
    CHECK(model.heads[0].first_token == 1);
  }
  EaglePair other;
  other.vocab = 40;
  other.own_table = true;
  other.own_vocab = 20;
  write("head.gguf", *other.head_image());
  CHECK_THROWS_WITH(
      engine::open_generating(options),
      fmt::format("{}: has a vocabulary of 40 tokens, but {} one of 48: a draft head needs the same vocabulary",
                  options.draft_model, options.model)
          .c_str());
  api::ModelOptions alone;
  alone.model = options.draft_model;
  CHECK_THROWS_WITH(
      engine::open_generating(alone),
      fmt::format("{0}: this is a draft head; give it together with its model: -m MODEL --draft-model {0}", alone.model)
          .c_str());
}

TEST_CASE("heads that know what the model says are right") {
  for (DraftModel made : draft_models()) {
    CAPTURE(std::string(made.shape.architecture));
    made.agrees = true;
    made.own_ends = false;
    const engine::LoadedModel model = tests::open_with_heads(made.open(), make_cpu_executor);
    engine::Session session(*model.executor, model.program, watched(model, 3));
    session.generate(tests::request_of(std::vector<int32_t>{1, 2, 3, 4, 5}, 40));
    const engine::GuessCounts counts = session.guesses();
    CHECK(3 * counts.all_right() > counts.all_made()); // 1 in 48 by chance
    CHECK(counts.all_made() > 20);
  }
}

TEST_CASE("draft heads are opened where they are to guess, and nowhere else") {
  const auto opened = [](const DraftModel& made, const std::string& who, std::string* noted = nullptr) {
    api::ModelOptions options;
    options.speculation = who;
    engine::LoadSteps steps;
    steps.note = [&](const std::string& line) {
      REQUIRE(noted);
      *noted += line;
    };
    return engine::open_generating(made.open(), options, steps);
  };
  for (const DraftModel& made : draft_models()) {
    CHECK(std::ssize(opened(made, "auto").heads) == made.heads);
    CHECK(std::ssize(opened(made, "mtp").heads) == made.heads);
    for (const char* who : {"off", "ngram"}) {
      const engine::LoadedModel model = opened(made, who);
      CHECK(model.heads.empty());
      CHECK(model.program.hidden < 0);
    }
  }
  DraftModel none = DraftModel::attention(), other = none;
  none.heads = 0;
  CHECK(opened(none, "auto").heads.empty());
  CHECK_THROWS_WITH(
      opened(none, "mtp"),
      "draft.gguf: has no draft head (a file with one has glm4moe.nextn_predict_layers and tensors blk.3.nextn.*)");
  other.shape.architecture = "qwen3";
  const std::string unsupported = "draft.gguf: draft heads of qwen3 models are not supported yet";
  CHECK_THROWS_WITH(opened(other, "mtp"), unsupported.c_str());
  std::string noted;
  CHECK(opened(other, "auto", &noted).heads.empty());
  CHECK(noted == "running without the file's draft head: " + unsupported);
}

TEST_CASE("a model starts with its draft heads, which guess") {
  api::ModelOptions options;
  options.speculation = "mtp";
  options.draft_tokens = 2;
  engine::LoadedModel model = engine::open_generating(DraftModel::chained().open(), options);
  core::ExecutorConfig config = engine::generating_config(options, model.program);
  config.threads = 1;
  engine::start_executor(model, config, "cpu");
  for (const engine::LoadedHead& head : model.heads) CHECK(head.executor->config().max_outputs == 1);
  const std::vector<int32_t> prompt = {1, 2, 3, 4};
  engine::Session session(*model.executor, model.program, engine::make_speculator(options, model, {}));
  session.generate(tests::request_of(prompt, 10));
  CHECK(session.guesses().made[1] > 3);
}
