// Text that a grammar forces is checked in one step, and changes no answer.
#include "engine/loading/loaded_model.h"
#include "engine/options.h"
#include "engine/sequences/constraint.h"
#include "engine/sequences/scheduler.h"
#include "support/http/requests.h"
#include "text/grammar/json_schema/json_schema.h"

#include <doctest/doctest.h>

#include <utility>

using namespace ridge;
using engine::Scheduler;

namespace {

class Silent final : public engine::Drafter {
 public:
  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t>) override { return -1; }
  std::vector<int32_t> draft(int64_t) override { return {}; }
};

class TokenByToken final : public engine::Constraint {
 public:
  explicit TokenByToken(std::unique_ptr<engine::Constraint> within) : within_(std::move(within)) {}
  bool allows(int32_t token) override { return within_->allows(token); }
  void apply(std::span<float> logits) override { within_->apply(logits); }
  void accept(int32_t token) override { within_->accept(token); }

 private:
  const std::unique_ptr<engine::Constraint> within_;
};

engine::LoadedModel open_guide() {
  engine::LoadedModel model = engine::open_model("");
  core::ExecutorConfig config = engine::executor_config({}, model.program.trained_context);
  config.max_outputs = engine::kMaxGuesses + 1;
  config.exact = true;
  engine::start_executor(model, config, "cpu");
  return model;
}

} // namespace

TEST_CASE("text that a grammar forces takes fewer steps and gives the same tokens") {
  const engine::LoadedModel model = open_guide();
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  const auto table = text::make_token_table(tokenizer);
  const text::SharedGrammar grammar(text::Grammar::parse(text::gbnf_from_json_schema(
      {{"type", "object"},
       {"properties",
        {{"the memory of the model", {{"enum", {"the bandwidth of the memory", "the context of the model"}}}},
         {"the number of tokens", {{"type", "integer"}, {"maximum", 9999}}},
         {"the name of the file", {{"type", "string"}, {"maxLength", 20}}}}},
       {"required", {"the memory of the model", "the number of tokens", "the name of the file"}}})));
  const std::vector<int32_t> prompt = tokenizer.encode("Answer in JSON: how large is the model?\n");
  for (const float temp : {0.0f, 1.0f}) {
    CAPTURE(temp);
    const auto answer = [&](bool forced, Scheduler::Counts& counts) {
      Scheduler scheduler(*model.executor, model.program,
                          std::make_unique<engine::Speculator>(std::make_unique<Silent>(), engine::kMaxGuesses), {}, {},
                          Scheduler::Driver::caller);
      core::SamplerParams params{.temp = temp, .bias = {}};
      params.seed = 5;
      engine::SequenceRequest request = tests::request_of(prompt, 120, params);
      request.is_end = [&](int32_t token) { return tokenizer.is_eog(token); };
      request.constraint = std::make_unique<engine::GrammarConstraint>(grammar, table, tokenizer);
      if (!forced) request.constraint = std::make_unique<TokenByToken>(std::move(request.constraint));
      const auto sequence = scheduler.submit(std::move(request));
      while (scheduler.advance()) {
      }
      counts = scheduler.counts();
      CHECK(sequence->stop() == engine::StopReason::end_of_turn);
      return std::vector<int32_t>(sequence->tokens().begin(), sequence->tokens().end());
    };
    Scheduler::Counts plain, guessed;
    const std::vector<int32_t> expected = answer(false, plain);
    CHECK(answer(true, guessed) == expected);
    CHECK(plain.guesses_made == 0);
    CHECK(guessed.guesses_right > 0);
    CHECK(guessed.steps == plain.steps - guessed.guesses_right);
  }
}
