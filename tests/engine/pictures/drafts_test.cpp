// Draft heads and drafters in texts with pictures.
#include "engine/head_runs.h"
#include "engine/speculation/model_drafter.h"
#include "kernels/cpu/executor/executor.h"
#include "support/drafts/draft_model.h"
#include "support/drafts/eagle_pair.h"

#include <random>

using namespace ridge;
using kernels::cpu::make_cpu_executor;
using tests::DraftModel;
using tests::EaglePair;

namespace {

constexpr int32_t kPicturedVocab = 48;

std::shared_ptr<const engine::EncodedTile> random_tile(int64_t columns, int64_t lines, int64_t width, uint64_t seed) {
  engine::EncodedTile tile;
  tile.columns = columns;
  tile.lines = lines;
  tile.tokens = columns * lines;
  tile.width = width;
  tile.hash = seed;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  auto rows = std::make_shared<std::vector<float>>(tile.tokens * width);
  for (float& number : *rows) number = normal(random);
  tile.rows = {rows, rows->data()};
  return std::make_shared<const engine::EncodedTile>(std::move(tile));
}

struct Pictured {
  std::vector<int32_t> text;
  engine::TextPictures pictures;

  void say(int32_t count) {
    for (int32_t i = 0; i < count; ++i) text.push_back((7 * i * i + 3 * i + count) % kPicturedVocab);
  }
  void show(int64_t columns, int64_t lines, int64_t width, uint64_t seed) {
    pictures.append(text, random_tile(columns, lines, width, seed));
  }
};

engine::SequenceRequest pictured_request(const Pictured& asked, int64_t limit, bool sampled) {
  engine::SequenceRequest request;
  request.prompt = asked.text;
  request.pictures = asked.pictures;
  request.limit = limit;
  request.sampling.temp = sampled ? 2 : 0;
  request.sampling.seed = 7;
  return request;
}

// Turns with the same pictures, with another one in their place, and with none. Returns all tokens.
std::vector<int32_t> look_and_talk(const engine::LoadedModel& model, bool sampled,
                                   std::unique_ptr<engine::Speculator> speculator, engine::GuessCounts& guesses) {
  engine::Session session(*model.executor, model.program, std::move(speculator));
  const int64_t width = model.program.row_width;
  std::vector<int32_t> all;
  const auto turn = [&](Pictured& conversation, int64_t limit) {
    session.generate(pictured_request(conversation, limit, sampled));
    conversation.text.assign(session.tokens().begin(), session.tokens().end());
    all.insert(all.end(), conversation.text.begin(), conversation.text.end());
    guesses += session.guesses();
  };
  Pictured first;
  first.say(5);
  first.show(6, 4, width, 3); // more than a batch of a head has left
  first.say(4);
  first.show(2, 5, width, 4);
  first.say(3);
  Pictured other;
  other.say(5);
  other.show(3, 3, width, 9);
  other.say(2);
  turn(first, 14);
  first.say(3);
  turn(first, 10);
  turn(other, 8);
  Pictured plain;
  plain.say(9);
  turn(plain, 7);
  first.say(2);
  turn(first, 6);
  return all;
}

void check_pictured(const engine::LoadedModel& model, bool guesses_made) {
  for (const bool sampled : {false, true}) {
    CAPTURE(sampled);
    engine::GuessCounts none;
    const std::vector<int32_t> expected = look_and_talk(model, sampled, nullptr, none);
    for (const int64_t length : {0, 1, 4}) { // 0: adaptive
      CAPTURE(length);
      engine::GuessCounts counts;
      auto watched =
          std::make_unique<engine::Speculator>(std::make_unique<tests::WatchedHeads>(model, make_cpu_executor), length);
      CHECK(look_and_talk(model, sampled, std::move(watched), counts) == expected);
      if (length > 0) CHECK(counts.all_made() > (guesses_made ? 15 : 2) * length);
    }
  }
}

engine::LoadedModel open_pictured(const DraftModel& made) {
  api::ModelOptions options;
  options.mmproj = "an encoder"; // heads are to read pictures
  gguf::File file = made.open();
  std::vector<engine::LoadedHead> heads = engine::heads_to_use(file, options);
  engine::LoadedModel model = engine::open_with_heads(std::move(file), std::move(heads), engine::Pictures::yes);
  tests::start(model, make_cpu_executor);
  return model;
}

} // namespace

TEST_CASE("draft heads read pictures as their definition does, and the answer is the one without them") {
  for (DraftModel made : {DraftModel::attention(), DraftModel::recurrent(), DraftModel::chained()}) {
    CAPTURE(std::string(made.shape.architecture));
    check_pictured(open_pictured(made), true);
    made.agrees = true;
    made.own_ends = false;
    const engine::LoadedModel model = open_pictured(made);
    engine::GuessCounts counts;
    look_and_talk(model, false, std::make_unique<engine::Speculator>(std::make_unique<engine::HeadDrafter>(model), 3),
                  counts);
    CHECK(3 * counts.all_right() > counts.all_made()); // 1 in 48 by chance
  }
}

TEST_CASE("EAGLE-3 heads as wide as their model read pictures, and others leave texts with pictures alone") {
  for (const EaglePair& pair : EaglePair::kinds()) {
    CAPTURE(pair.width);
    const engine::LoadedModel model =
        tests::open_with_eagle(pair.model(), pair.head(), make_cpu_executor, 1, 160, engine::Pictures::yes);
    CHECK(model.heads[0].program.has_token_coordinates == (pair.width == pair.model_width));
    check_pictured(model, pair.width == pair.model_width);
  }
}

TEST_CASE("a draft model leaves texts with pictures alone") {
  auto draft = std::make_unique<engine::LoadedModel>(engine::open_model(EaglePair().model()));
  draft->executor = make_cpu_executor(draft->program, tests::heads_config());
  engine::ModelDrafter drafter(std::move(draft), kPicturedVocab);
  Pictured asked;
  asked.say(3);
  drafter.begin(asked.text);
  CHECK(drafter.prepare_draft(asked.text) == 0);
  CHECK(drafter.draft(2).size() == 2);
  asked.show(2, 2, 64, 5);
  asked.say(2);
  drafter.begin(asked.text);
  CHECK(drafter.prepare_draft(asked.text) == -1);
}

TEST_CASE("a part of a text takes the beginnings of rows that are longer than its program's") {
  core::Program program;
  program.has_token_coordinates = true;
  program.row_width = 2;
  Pictured asked;
  asked.say(1);
  asked.show(2, 1, 3, 5);
  engine::PlacedBatch placed;
  placed.append(asked.text, 0, 0, &asked.pictures);
  const core::Batch batch = placed.batch(program);
  const float* rows = asked.pictures.places()[0].tile->rows.get();
  CHECK(std::vector(batch.rows.begin(), batch.rows.end()) == std::vector<float>{rows[0], rows[1], rows[3], rows[4]});
  CHECK(std::vector(batch.tokens.begin() + 1, batch.tokens.end()) == std::vector<int32_t>{-1, -2});
}
