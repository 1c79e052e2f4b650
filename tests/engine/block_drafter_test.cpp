// DFlash heads compared with their definition.
#include "core/error.h"
#include "engine/guess_runs.h"
#include "engine/head_runs.h"
#include "engine/speculation/block_drafter.h"
#include "kernels/cpu/executor/executor.h"
#include "support/drafts/dflash_naive.h"
#include "support/temporary_folder.h"

using namespace ridge;
using kernels::cpu::make_cpu_executor;
using tests::DflashPair;

namespace {

constexpr double kTie = 1e-4; // of logits

class WatchedBlocks final : public tests::WatchedDrafter<engine::BlockDrafter> {
 public:
  WatchedBlocks(const engine::LoadedModel& model, const DflashPair& pair)
      : WatchedDrafter(model), pair_(pair), naive_(pair, model.file, *model.heads[0].file) {}

  std::vector<int32_t> draft(int64_t most) override {
    const std::vector<int32_t> guesses = drafter_.draft(most);
    CAPTURE(text_.size());
    CHECK(std::ssize(guesses) == std::min(most, pair_.block - 1));
    const std::vector<float> logits = naive_.logits(text_, std::ssize(guesses));
    for (size_t i = 0; i < guesses.size(); ++i) {
      const std::span<const float> row = std::span(logits).subspan(i * pair_.vocab, pair_.vocab);
      CHECK(static_cast<double>(row[guesses[i]]) > static_cast<double>(*std::ranges::max_element(row)) - kTie);
    }
    return guesses;
  }

 private:
  const DflashPair pair_;
  const tests::NaiveDflash naive_;
};

std::unique_ptr<engine::Speculator> watched_blocks(const engine::LoadedModel& model, const DflashPair& pair,
                                                   int64_t length) {
  return std::make_unique<engine::Speculator>(std::make_unique<WatchedBlocks>(model, pair), length);
}

// Goes back to what was said before, and into an answer.
std::vector<int32_t> converse_in_blocks(const engine::LoadedModel& model,
                                        std::unique_ptr<engine::Speculator> speculator) {
  engine::Session session(*model.executor, model.program, std::move(speculator));
  std::vector<int32_t> tokens, all;
  const auto turn = [&](int32_t said, int64_t limit) {
    for (int32_t i = 0; i < said; ++i) tokens.push_back((7 * i * i + 3 * i + said) % 47);
    session.generate(tests::request_of(tokens, limit));
    tokens.assign(session.tokens().begin(), session.tokens().end());
    all.insert(all.end(), tokens.begin(), tokens.end());
  };
  turn(40, 9);
  const std::vector<int32_t> first = tokens;
  turn(4, 6);
  tokens = first;
  turn(3, 6);
  tokens.erase(tokens.begin() + 5, tokens.begin() + 35);
  turn(2, 7);
  tokens.resize(9);
  turn(1, 4);
  tokens = {5};
  turn(0, 4);
  return all;
}

} // namespace

TEST_CASE("DFlash heads guess what they are defined to, and the answer is the one without them") {
  for (const DflashPair& pair : DflashPair::kinds()) {
    CAPTURE(pair.head_layers);
    CAPTURE(pair.causal);
    const engine::LoadedModel model = tests::open_with_dflash(pair.model(), pair.head(), make_cpu_executor);
    const std::vector<int32_t> plain = converse_in_blocks(model, nullptr);
    for (const int64_t length : {1, 4, 15}) { // more than a block has
      CAPTURE(length);
      CHECK(converse_in_blocks(model, watched_blocks(model, pair, length)) == plain);
    }
    core::SamplerParams sampled;
    sampled.seed = 7;
    sampled.temp = 2;
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
    tests::check_same(
        tests::generated(*model.executor, model.program, prompt, sampled, 20, watched_blocks(model, pair, 5)),
        tests::generated(*model.executor, model.program, prompt, sampled, 20));
  }
}

TEST_CASE("a DFlash head goes on wherever its text and its rows stop, rows that it never got being 0") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const DflashPair pair;
  const engine::LoadedModel model = tests::open_with_dflash(pair.model(), pair.head(), make_cpu_executor, 2);
  using engine::BlockDrafter;
  tests::check_any_stops<BlockDrafter>(model, seed, 47, 150,
                                       [&](BlockDrafter& blocks, BlockDrafter& fresh, int64_t size, const auto& below) {
                                         const int64_t most = 1 + below(9);
                                         const std::vector<int32_t> guesses = blocks.draft(most);
                                         CHECK(std::ssize(guesses) == std::min({most, pair.block - 1, 160 - size}));
                                         CHECK(guesses == fresh.draft(most));
                                       });
}

TEST_CASE("a DFlash head does not guess beyond its context, nor with images") {
  const DflashPair pair;
  const engine::LoadedModel model = tests::open_with_dflash(pair.model(), pair.head(), make_cpu_executor, 1, 16);
  engine::BlockDrafter blocks(model);
  const std::vector<int32_t> text(16, 3);
  const std::vector<float> rows(15 * 64, 0.5f);
  blocks.evaluated(std::span(text).first(13), std::span(rows).first(13 * 64));
  CHECK(blocks.prepare_draft(std::span(text).first(14)) == 0);
  CHECK(blocks.draft(7).size() == 2);
  CHECK(blocks.prepare_draft(text) == -1);
  const engine::TextPictures pictures;
  CHECK(!blocks.select(0, &pictures));
}

TEST_CASE("--draft-model opens a DFlash head beside its model, which guesses, and one of another model is refused") {
  const tests::TemporaryFolder folder;
  const auto write = [&](const char* name, const std::vector<std::byte>& image) {
    return folder.write(name, {reinterpret_cast<const char*>(image.data()), image.size()});
  };
  const DflashPair pair;
  api::ModelOptions options;
  options.model = write("model.gguf", *pair.model_image());
  options.draft_model = write("dflash.gguf", *pair.head_image());
  options.draft_tokens = 5;
  engine::LoadedModel model = engine::open_generating(options);
  REQUIRE(model.heads.size() == 1);
  CHECK(model.heads[0].first_token == 0);
  core::ExecutorConfig config = engine::generating_config(options, model.program);
  config.threads = 1;
  engine::start_executor(model, config, "cpu");
  CHECK(model.heads[0].executor->config().max_outputs == config.max_outputs);
  engine::Session session(*model.executor, model.program, engine::make_speculator(options, model, {}));
  session.generate(tests::request_of(std::vector<int32_t>{1, 2, 3, 4}, 30));
  CHECK(session.guesses().made[4] > 3);

  DflashPair other;
  other.layers = {1, 2, 9};
  write("dflash.gguf", *other.head_image());
  CHECK_THROWS_WITH(engine::open_generating(options),
                    fmt::format("{}: reads the input of layer 9, but {} has 5 layers: it is a draft head for another "
                                "model",
                                options.draft_model, options.model)
                        .c_str());
}
