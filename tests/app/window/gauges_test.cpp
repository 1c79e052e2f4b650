// The window's gauges and `ridge bench` agree on counts, events and ratios. The executor advances a test clock.
#include "app/window/window_engine.h"
#include "core/sampler.h"
#include "measure/bench.h"
#include "support/watchdog.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <optional>

using namespace ridge;

namespace {

// Takes the given times. With `decodes`, a token's evaluation starts when the one before ends, as on a GPU.
class Timed final : public core::Executor {
 public:
  Timed(std::unique_ptr<core::Executor> inner, std::atomic<double>& clock, bool decodes)
      : inner_(std::move(inner)), clock_(clock), decodes_(decodes) {}

  static double seconds_of(int64_t position) { return 0.1 + 0.001 * static_cast<double>(position); }

  void submit(const core::Batch& batch, const core::Choosing& choosing) override {
    double ends_at = clock_;
    if (choosing.chain == core::Chain::resume) {
      if (!pending_.empty()) ends_at = std::max(ends_at, pending_.back().ends_at);
      core::Batch known = batch;
      if (batch.tokens[0] == core::kChosenToken) known.tokens = {&last_chosen_, 1};
      ends_at += evaluate(known);
    } else {
      pending_.clear();
      clock_ = ends_at += evaluate(batch);
    }
    if (choosing.chain == core::Chain::begin) sampler_.emplace(*choosing.samplers[0]);
    if (choosing.chain == core::Chain::none) return;
    sampler_->accept(last_chosen_ = sampler_->sample(inner_->logits(0)));
    pending_.push_back({last_chosen_, ends_at});
  }
  std::span<const int32_t> wait() override {
    if (pending_.empty()) return {};
    clock_ = std::max(clock_.load(), pending_.front().ends_at);
    token_ = pending_.front().token;
    pending_.pop_front();
    return {&token_, 1};
  }
  bool can_chain(const core::SamplerParams&) const override { return decodes_; }
  std::span<const float> logits(int64_t i) override { return inner_->logits(i); }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    inner_->load_state(stream, state, position);
  }
  const core::ExecutorConfig& config() const override { return inner_->config(); }
  std::string_view description() const override { return "timed by a test"; }
  double memory_bytes() const override { return inner_->memory_bytes(); }

 private:
  double evaluate(const core::Batch& batch) {
    inner_->forward(batch);
    double seconds = 0;
    for (const int32_t position : batch.positions) seconds += seconds_of(position);
    return seconds;
  }

  std::unique_ptr<core::Executor> inner_;
  std::atomic<double>& clock_;
  const bool decodes_;
  std::optional<core::Sampler> sampler_;
  struct Pending {
    int32_t token;
    double ends_at;
  };
  std::deque<Pending> pending_;
  int32_t last_chosen_ = 0, token_ = 0;
};

struct Machine {
  std::atomic<double> time = 0;
  bool decodes = false;

  std::function<double()> clock() {
    return [this] { return time.load(); };
  }
  auto start() {
    return [this](engine::LoadedModel& model, const core::ExecutorConfig& config, const std::string& device,
                  const engine::Placement& placement) {
      const engine::Device result = engine::start_executor(model, config, device, placement);
      model.executor = std::make_unique<Timed>(std::move(model.executor), time, decodes);
      return result;
    };
  }
};

// Gauges of an answer, with the prompt's number of tokens.
api::Speed gauges(Machine& machine, int64_t answer_tokens) {
  app::WindowSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.model.speculation = "off";
  setup.request.sampling.max_tokens = answer_tokens;
  setup.request.sampling.ignore_eos = true;
  setup.start = machine.start();
  setup.clock = machine.clock();
  app::WindowEngine engine(std::move(setup), [] {});
  const auto idle = [&] {
    const auto s = engine.snapshot();
    return s->model && s->state == api::EngineState::idle;
  };
  REQUIRE(tests::eventually("the guide to be open", idle));
  engine.send(api::intent::KeepChoices{false});
  engine.send(api::intent::Send{"What is Q4_K?"});
  REQUIRE(tests::eventually("the answer", [&] { return engine.snapshot()->messages.size() == 2 && idle(); }));
  CHECK(engine.snapshot()->error == "");
  CHECK(engine.snapshot()->kv.tokens == engine.snapshot()->speed.prompt_tokens + answer_tokens);
  return engine.snapshot()->speed;
}

measure::BenchRow bench(Machine& machine, int64_t prompt, int64_t generated, int64_t depth) {
  api::BenchRequest request;
  request.device = "cpu";
  request.threads = "1";
  request.prompts = std::to_string(prompt);
  request.generated = std::to_string(generated);
  request.depths = std::to_string(depth);
  request.repetitions = 2;
  std::vector<measure::BenchRow> rows;
  measure::BenchSteps steps;
  steps.row = [&](const measure::BenchRow& row) { rows.push_back(row); };
  steps.start = machine.start();
  steps.clock = machine.clock();
  measure::bench(request, steps);
  REQUIRE(rows.size() == 1);
  return rows[0];
}

} // namespace

TEST_CASE("the gauges say what ridge bench says of the same work") {
  for (const bool decodes : {false, true}) {
    CAPTURE(decodes);
    Machine machine;
    machine.decodes = decodes;
    constexpr int64_t kTokens = 100;
    const api::Speed speed = gauges(machine, kTokens + 1); // the prompt gives the first token
    CHECK(speed.answer_tokens == kTokens);
    double seconds = 0;
    for (int64_t i = 0; i < kTokens; ++i) seconds += Timed::seconds_of(speed.prompt_tokens + i);
    CHECK(speed.tokens_per_s == doctest::Approx(kTokens / seconds));

    const measure::BenchRow generated = bench(machine, 0, kTokens, speed.prompt_tokens);
    CHECK(generated.seconds.size() == 2);
    for (const double measured : generated.seconds) CHECK(measured == doctest::Approx(seconds));
    CHECK(generated.rate() == doctest::Approx(speed.tokens_per_s));
    CHECK(generated.bytes / kTokens == doctest::Approx(speed.bytes_per_s / speed.tokens_per_s));

    const measure::BenchRow prompt = bench(machine, speed.prompt_tokens, 0, 0);
    CHECK(prompt.rate() == doctest::Approx(speed.prompt_tokens_per_s));
  }
}
