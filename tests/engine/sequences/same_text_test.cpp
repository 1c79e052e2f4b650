// A seed gives bit-equal results whatever is cached, served or drafted, in fast mode on the CPU.
#include "engine/options.h"
#include "engine/sequences/scheduler.h"
#include "engine/speculation/ngram_drafter.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/recipes/prefix_runs.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>

using namespace ridge;
using engine::Scheduler;
using tests::prefixes::some_tokens;
using tests::prefixes::Tokens;

namespace {

constexpr int64_t kOthers = 15, kLimit = 40;

core::ExecutorConfig config_of(int64_t streams) {
  core::ExecutorConfig config;
  config.context = 256;
  config.streams = streams;
  config.max_batch = 64;
  config.max_outputs = streams + 8;
  config.rewind_tokens = 8;
  config.threads = 2;
  return config;
}

engine::SequenceRequest request_for(const Tokens& prompt, int64_t seed = 7) {
  engine::SequenceRequest request;
  request.prompt = prompt;
  request.sampling.temp = 0.8f;
  request.sampling.seed = seed;
  request.limit = kLimit;
  request.keep_choices = true;
  return request;
}

struct Answer {
  Tokens tokens;
  std::vector<float> likely;
  bool operator==(const Answer&) const = default;
};

Answer answer_of(engine::Sequence& sequence) {
  Answer answer;
  while (const auto token = sequence.next()) {
    answer.tokens.push_back(token->id);
    answer.likely.push_back(token->choice->top[0].log_probability);
  }
  REQUIRE(std::ssize(answer.tokens) == kLimit);
  return answer;
}

void check_same_text(const core::Program& program, const Tokens& prompt) {
  const auto vocab = static_cast<int32_t>(program.vocab);
  const auto executor_of = [&](int64_t streams) {
    return kernels::cpu::make_cpu_executor(program, config_of(streams));
  };
  const auto alone = executor_of(1);
  Scheduler alone_scheduler(*alone, program);
  const Answer fresh = answer_of(*alone_scheduler.submit(request_for(prompt)));
  {
    INFO("cached");
    const auto again = alone_scheduler.submit(request_for(prompt));
    CHECK(answer_of(*again) == fresh);
    CHECK(again->cached_tokens() > 0);
  }
  {
    INFO("beside others");
    const auto executor = executor_of(kOthers + 1);
    Scheduler scheduler(*executor, program);
    std::vector<std::shared_ptr<engine::Sequence>> others;
    for (int64_t i = 0; i < kOthers; ++i)
      others.push_back(scheduler.submit(request_for(some_tokens(100 + i, 10 + 7 * i, vocab), i)));
    CHECK(answer_of(*scheduler.submit(request_for(prompt))) == fresh);
  }
  {
    INFO("preempted");
    const auto executor = executor_of(1);
    Scheduler scheduler(
        *executor, program, nullptr, {.bytes = 1 << 28},
        {.seconds = 1, .patience = 1e9, .share = 1, .clock = [looks = std::make_shared<std::atomic<int>>(0)] {
           return static_cast<double>(++*looks); // each clock reading ends a turn
         }});
    std::vector<std::shared_ptr<engine::Sequence>> all = {scheduler.submit(request_for(prompt))};
    for (int64_t i = 0; i < 3; ++i) all.push_back(scheduler.submit(request_for(some_tokens(200 + i, 30, vocab), i)));
    CHECK(answer_of(*all[0]) == fresh);
    for (size_t i = 1; i < all.size(); ++i) answer_of(*all[i]);
    CHECK(scheduler.counts().preemptions > 0);
  }
  {
    INFO("guessed");
    // The prompt contains its answer, for n-grams.
    Tokens twice = prompt;
    twice.insert(twice.end(), fresh.tokens.begin(), fresh.tokens.end());
    twice.insert(twice.end(), prompt.begin(), prompt.end());
    const Answer plain = answer_of(*alone_scheduler.submit(request_for(twice)));
    const auto executor = executor_of(1);
    Scheduler scheduler(*executor, program,
                        std::make_unique<engine::Speculator>(std::make_unique<engine::NgramDrafter>(), 5));
    CHECK(answer_of(*scheduler.submit(request_for(twice))) == plain);
  }
}

} // namespace

TEST_CASE("the guide says the same with a seed: fresh, cached, beside others, preempted and guessed") {
  engine::LoadedModel model = engine::open_model("");
  const std::string text = "How is a super-block of Q4_K packed, and what does it cost to read one for each token?";
  check_same_text(model.program, model.need_tokenizer().encode(text, {}));
}

TEST_CASE("tiny models say the same with a seed: fresh, cached, beside others, preempted and guessed") {
  REQUIRE_REFERENCE();
  for (const char* name : {"llama-dense", "gemma3-dense", "qwen35-dense", "deepseek2-moe", "gpt-oss-moe"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    check_same_text(program, some_tokens(3, 70, static_cast<int32_t>(program.vocab)));
  }
}
