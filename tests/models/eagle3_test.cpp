// EAGLE-3 heads. Golden logits are from tests/cross_check/eagle3_check.py.
#include "core/error.h"
#include "core/parallel/parallel_executor.h"
#include "core/stages/split.h"
#include "kernels/cpu/executor/executor.h"
#include "models/eagle.h"
#include "models/model.h"

#include "message_of.h"
#include "support/drafts/eagle_runs.h"
#include "support/ranks.h"

#include <doctest/doctest.h>

using namespace ridge;
using kernels::cpu::make_cpu_executor;
using tests::EaglePair;
using tests::message_of;

namespace {

std::string refusal(const EaglePair& of_model, const EaglePair& of_head) {
  const gguf::File model = of_model.model(), head = of_head.head();
  return message_of([&] {
    models::build_drafted(model, head);
    models::build_eagle_head(head, model);
  });
}

} // namespace

TEST_CASE("EAGLE-3 heads of every kind have the logits of their definition, also of a guess behind a guess") {
  tests::check_eagle_golden(make_cpu_executor);
}

TEST_CASE("a model that drafts for an EAGLE-3 head says the same, and both compute what their Programs mean") {
  for (const EaglePair& pair : EaglePair::kinds()) {
    const gguf::File model = pair.model(), head = pair.head();
    tests::EagleRun run(model, head, make_cpu_executor);
    CHECK(core::layer_count(run.head) == 1);
    CHECK(run.head.vocab == run.model.vocab);
    run.run(tests::kEagleTokens);
    tests::Steps steps;
    for (const int32_t id : tests::eagle_ids()) {
      steps.outputs.push_back(static_cast<int32_t>(steps.tokens.size()));
      steps.positions.push_back(static_cast<int32_t>(steps.tokens.size()));
      steps.streams.push_back(0);
      steps.tokens.push_back(id);
    }
    const core::Program plain = models::build_program(model);
    CHECK(plain.hidden < 0);
    const std::vector<float> logits = tests::run(*make_cpu_executor(plain, tests::exact_config()), steps);
    CHECK(tests::nmse(tests::run(*make_cpu_executor(run.model, tests::exact_config()), steps), logits) < 1e-10);
    tests::Naive meaning(run.model, core::KvType::f32, core::KvType::f32);
    CHECK(tests::nmse(logits, meaning.forward(steps.batch())) < 1e-9);
    std::vector<float> rows;
    for (const tests::Naive::Row& row : meaning.value(run.model.hidden))
      rows.insert(rows.end(), row.begin(), row.end());
    CHECK(tests::nmse(run.rows, rows) < 1e-9);
  }
}

TEST_CASE("a model that drafts for an EAGLE-3 head splits where no row that it takes crosses beside the others") {
  const EaglePair pair;
  const gguf::File model = pair.model(), head = pair.head();
  const core::Program program = models::build_drafted(model, head);
  CHECK(core::next_cut(program, 1) == 1);
  CHECK(core::next_cut(program, 2) == 5);
  CHECK(core::next_cut(program, 3) == 5);
  CHECK(core::next_cut(program, 5) == 5);
  const std::vector<float> whole = tests::EagleRun(model, head, make_cpu_executor).run(7);
  for (const int32_t layer : {1, 5}) {
    CAPTURE(layer);
    const tests::MakeExecutor split = [&](const core::Program& part, const core::ExecutorConfig& config) {
      if (core::layer_count(part) < layer) return make_cpu_executor(part, config);
      return core::make_split_executor(core::split_program(part, layer), config, make_cpu_executor, make_cpu_executor);
    };
    CHECK(tests::eagle_error(tests::EagleRun(model, head, split).run(7), whole) < 1e-12);
  }
  EaglePair to_end = pair;
  to_end.layers = {1, 2, 5};
  const gguf::File of_end = to_end.head();
  CHECK(core::next_cut(models::build_drafted(model, of_end), 2) == 6);
}

TEST_CASE("a model that drafts for an EAGLE-3 head gives the same rows when its layers are shared out") {
  for (const EaglePair& pair : EaglePair::kinds()) {
    const gguf::File model = pair.model(), head = pair.head();
    const tests::MakeExecutor on_ranks = [&](const core::Program& program, const core::ExecutorConfig& config) {
      if (program.input >= 0) return make_cpu_executor(program, config);
      return core::make_parallel_executor(
          tests::shards_of(program, 2), config, core::make_thread_communicators(2),
          [](const core::Program& part, const core::ExecutorConfig& own, int) { return make_cpu_executor(part, own); });
    };
    tests::EagleRun alone(model, head, make_cpu_executor), shared(model, head, on_ranks);
    CHECK(tests::eagle_error(shared.run(7), alone.run(7)) < 1e-9);
    CHECK(tests::nmse(shared.rows, alone.rows) < 1e-9);
  }
}

TEST_CASE("an EAGLE-3 head of another model is refused with one line") {
  EaglePair other;
  other.model_layers = 3;
  CHECK(refusal(other, {}) ==
        "eagle3.gguf: reads the input of layer 4, but model.gguf has 3 layers: it is a draft head for another model");
  other = {};
  other.model_width = 32;
  CHECK(
      refusal(other, {}) ==
      "eagle3.gguf: reads rows of 64 elements, but those of model.gguf have 32: it is a draft head for another model");
  other = {};
  other.width = 32;
  CHECK(refusal({}, other) == "eagle3.gguf: uses the token embeddings of model.gguf, whose rows have 64 elements "
                              "instead of 32: it is a draft head for another model");
  other = {};
  other.own_table = true;
  other.vocab = 50;
  CHECK(refusal({}, other) ==
        "eagle3.gguf: has a vocabulary of 50 tokens, but model.gguf one of 48: a draft head needs the same vocabulary");
  other = {};
  other.vocabulary_stride = 3;
  CHECK(refusal({}, other) == "eagle3.gguf: tensor d2t contains token 48, expected distinct token ids below 48");
  other.vocabulary_stride = 0;
  CHECK(refusal({}, other) == "eagle3.gguf: tensor d2t contains token 0, expected distinct token ids below 48");
  other = {};
  other.layers = {1, 2};
  CHECK(refusal({}, other) == "eagle3.gguf: eagle3.target_layers: expected three layer numbers");
  CHECK(message_of([&] { models::build_program(other.head()); }) ==
        "eagle3.gguf: this is a draft head; give it together with its model: -m MODEL --draft-model eagle3.gguf");
}
