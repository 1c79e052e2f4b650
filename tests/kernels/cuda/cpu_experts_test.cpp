// Steps in which the CPU computes experts that the GPU lacks.
#include "device.h"
#include "greedy.h"
#include "kernels/cpu/executor/host_experts.h"
#include "support/executor_runs.h"
#include "support/recipes/recipe_runs.h"

#include <atomic>

using namespace ridge;
using namespace ridge::kernels;

namespace {

struct Counts {
  uint64_t messages = 0; // expected so far
  uint64_t experts = 0;  // in the last message of each step
};

class Counted final : public core::HostExperts {
 public:
  Counted(std::unique_ptr<core::HostExperts> experts, Counts& counts) : experts_(std::move(experts)), counts_(counts) {}
  int threads() const override { return experts_->threads(); }
  double measure(int experts) override { return experts_->measure(experts); }
  void serve(const core::ExpertMailbox& box) override {
    mail_ = box.mail;
    experts_->serve(box);
  }
  void expect(uint64_t messages) override {
    counts_.messages = messages;
    counts_.experts += std::atomic_ref(mail_->sent).load() % (1 << core::kMailCountBits);
    experts_->expect(messages);
  }

 private:
  std::unique_ptr<core::HostExperts> experts_;
  Counts& counts_;
  core::ExpertMail* mail_ = nullptr;
};

// The CPU computes all missing experts.
tests::GpuOptions all_missing(const core::Program& program, Counts& counts, int64_t copies) {
  tests::GpuOptions options;
  options.experts_on_host = true;
  options.most_copies = copies;
  options.cpu_experts.make = [&program, &counts](std::vector<core::ExpertLayer> layers) {
    return std::make_unique<Counted>(cpu::make_host_experts(program, std::move(layers), {.threads = 3}), counts);
  };
  options.cpu_experts.share.emplace();
  for (size_t missing = 0; missing < options.cpu_experts.share->size(); ++missing)
    options.cpu_experts.share->at(missing) = static_cast<uint8_t>(missing);
  return options;
}

// Tables choose two of eight experts by token, or all three are used: rounding can choose no other.
tests::RandomProgram small_moe(uint64_t seed, quant::Type type, bool by_token) {
  tests::RandomProgram model(seed);
  tests::RandomProgram::Shape shape;
  shape.layers = 3;
  shape.width = shape.hidden = 512;
  shape.experts = by_token ? 8 : 3;
  shape.used = by_token ? 2 : 3;
  shape.expert_bias = shape.share_scales = shape.chosen_by_token = by_token;
  model.transformer(shape, type, type);
  return model;
}

} // namespace

TEST_CASE("CUDA: experts that the CPU computes give the result of the GPU's, in every type") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    for (const int64_t copies : {1, 3}) {
      tests::RandomProgram model = small_moe(seed, format.type, copies == 3);
      Counts counts;
      const auto make = [&](const core::Program& program, const core::ExecutorConfig& config) {
        return tests::make_cuda_executor(program, config, all_missing(program, counts, copies));
      };
      const double bound = 8 * tests::single_token_bound(format);
      CHECK(tests::worst_error(make, model, tests::fast_config(), {1, 1, 2, 5, 1, 12, 8, 1, 1, 1, 1}) <= bound);
      CHECK(counts.messages == 3 * 10); // not of 12 tokens
      CHECK(counts.experts > 0);
    }
  }
}

TEST_CASE("CUDA: chains and profiles have the CPU's experts, too") {
  REQUIRE_DEVICE();
  const tests::RandomProgram model = small_moe(5, quant::Type::Q8_0, false);
  Counts counts;
  const auto executor =
      tests::make_cuda_executor(model.program, tests::fast_config(), all_missing(model.program, counts, 1));
  CHECK(executor->description().find("3 CPU threads for experts") != std::string_view::npos);
  CHECK(tests::greedy_tokens(*executor, model.program.vocab, 1, 0, 40).size() == 40);
  CHECK(counts.messages == 3 * 40);
  const int32_t token = 1, position = 40, zero = 0;
  CHECK_FALSE(executor->profile({{&token, 1}, {&position, 1}, {}, {&zero, 1}}, 3).empty());
  const uint64_t before = counts.messages;
  CHECK(before > 3 * 40);
  executor->forward({{&token, 1}, {&position, 1}, {}, {&zero, 1}});
  CHECK(counts.messages == before + 3);
}

TEST_CASE("CUDA: a CPU that never answers is an error, and the GPU does not hang") {
  REQUIRE_DEVICE();
  class Silent final : public core::HostExperts {
    int threads() const override { return 1; }
    double measure(int) override { return 1e-6; }
    void serve(const core::ExpertMailbox&) override {}
    void expect(uint64_t) override {}
  };
  const tests::RandomProgram model = small_moe(5, quant::Type::Q8_0, false);
  Counts counts;
  tests::GpuOptions options = all_missing(model.program, counts, 1);
  options.cpu_experts.make = [](const auto&) { return std::make_unique<Silent>(); };
  options.cpu_experts.patience_seconds = 0.02;
  const auto executor = tests::make_cuda_executor(model.program, tests::fast_config(), options);
  const auto step = [&](int32_t position) {
    const int32_t token = 1 + position % 7, zero = 0;
    executor->forward({{&token, 1}, {&position, 1}, {}, {&zero, 1}});
  };
  CHECK_THROWS_WITH_AS(for (int32_t position = 0; position < 40; ++position) step(position),
                       doctest::Contains("did not compute its share of the experts within 0.02 s"), Error);
}

TEST_CASE("CUDA: where the CPU is never sooner, it computes nothing and results are the GPU's") {
  REQUIRE_DEVICE();
  tests::RandomProgram model = small_moe(5, quant::Type::Q8_0, false);
  Counts counts;
  tests::GpuOptions options = all_missing(model.program, counts, 2);
  options.cpu_experts.share = kernels::cuda::share_of_cpu({1e6, 1e6, 1});
  const auto executor = tests::make_cuda_executor(model.program, tests::fast_config(), options);
  const auto plain = tests::make_executor(model.program, tests::fast_config());
  CHECK(tests::greedy_tokens(*executor, model.program.vocab, 1, 0, 20) ==
        tests::greedy_tokens(*plain, model.program.vocab, 1, 0, 20));
  CHECK(counts.messages == 0);
}
