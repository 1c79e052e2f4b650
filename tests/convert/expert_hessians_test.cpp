// Hessians of experts by the rows that reach them.
#include "convert/expert_hessians.h"

#include "convert/calibrated.h"
#include "convert/sensitivity.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/correlated.h"
#include "support/numerics.h"
#include "support/recipes/recipe.h"
#include "support/reference.h"

#include <algorithm>
#include <random>

using namespace ridge;
using convert::ExpertHessians;

namespace {

// Only the diagonal, so that wide ones fit.
class DiagonalHessian final : public quant::Hessian {
 public:
  explicit DiagonalHessian(int64_t cols) : sums_(static_cast<size_t>(cols)) {}
  int64_t cols() const override { return std::ssize(sums_); }
  void add(std::span<const float> inputs) override {
    for (size_t i = 0; i < inputs.size(); ++i) sums_[i % sums_.size()] += inputs[i] * inputs[i];
  }
  void add_originals(std::span<const float>, std::span<const float>, std::span<const float>) override {}
  std::vector<float> targets(const float*, int64_t) override { return {}; }
  std::vector<float> mean_squares() const override { return sums_; } // not their mean
  double output_error(std::span<const float>) const override { return 0; }
  void encode(quant::Type, const float*, int64_t, std::byte*) override {}
  void round(quant::Type, const float*, int64_t, std::byte*) override {}

 private:
  std::vector<float> sums_;
};

} // namespace

TEST_CASE("an expert's Hessian is of its own rows and 32 rows' worth of all, however many runs that takes") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  core::Op op{.kind = core::OpKind::expert_linear, .layer = 0, .weights = {3}}, other = op;
  other.weights = {4};
  for (const int64_t cols : {8, 9000}) { // one run; one matrix at a time fits
    CAPTURE(cols);
    const int64_t counts[4] = {50, 3, 0, 11}; // rows of an expert per chunk, in two chunks
    std::vector<std::vector<float>> rows;
    for (const int64_t count : counts) rows.push_back(tests::random_weights(random, 2 * count * cols));
    int runs = 0;
    ExpertHessians hessians(
        3, 4, cols, 128, [](int64_t width) { return std::make_unique<DiagonalHessian>(width); },
        [&](core::InputObserver& observer, const std::function<void()>& after_chunk) {
          ++runs;
          for (const int chunk : {0, 1}) {
            for (int64_t expert = 3; expert >= 0; --expert) {
              std::vector<const float*> given;
              for (int64_t i = 0; i < counts[expert]; ++i)
                given.push_back(&rows[static_cast<size_t>(expert)][(chunk * counts[expert] + i) * cols]);
              if (!given.empty()) observer.observe(op, expert, given);
              observer.observe(other, expert, given);
            }
            after_chunk();
          }
        });
    std::vector<double> all(static_cast<size_t>(cols));
    for (const auto& of_expert : rows)
      for (size_t i = 0; i < of_expert.size(); ++i)
        all[i % all.size()] += static_cast<double>(of_expert[i]) * of_expert[i] / 128;
    for (int64_t expert = 0; expert < 4; ++expert) {
      const auto& own = rows[static_cast<size_t>(expert)];
      std::vector<double> expected(static_cast<size_t>(cols));
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = 32 * all[i];
      for (size_t i = 0; i < own.size(); ++i) expected[i % expected.size()] += static_cast<double>(own[i]) * own[i];
      const std::vector<float> sums = hessians.of(expert).mean_squares();
      CHECK(tests::nmse(sums, std::vector<float>(expected.begin(), expected.end())) < 1e-6);
    }
    CHECK(runs == (cols == 8 ? 1 : 4));
  }
}

TEST_CASE("feedback and rounding reach each expert and each head of per-head matrices") {
  REQUIRE_REFERENCE();
  for (const auto& [name, tensor] :
       {std::pair("qwen2moe-moe", "blk.0.ffn_down_exps.weight"), {"deepseek2-moe", "blk.1.attn_k_b.weight"}}) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    const convert::Requantization plan = convert::plan_requantization(file, models::find_recipe("Q4_0"), {}, nullptr);
    std::vector<std::vector<std::byte>> made;
    for (const convert::CalibrationMethod method :
         {convert::CalibrationMethod{}, {.feedback = true}, {.rounding = true}}) {
      convert::CalibratedQuantizer calibrated(plan, program, method, {recipe.ids(), recipe.ids()},
                                              kernels::cpu::make_cpu_executor, 1);
      const convert::Prepared* prepared = calibrated.tensor(tensor);
      REQUIRE(prepared);
      made.push_back(prepared->bytes);
    }
    // Every matrix differs from the search's.
    const size_t bytes = made[0].size() / 4; // or two experts
    for (const size_t method : {1, 2})
      for (size_t at = 0; at < made[0].size(); at += bytes)
        CHECK_FALSE(std::equal(&made[0][at], &made[0][at] + bytes, &made[method][at]));
  }
}

TEST_CASE("rounding a mixture of experts diverges no more than feedback, on text that neither saw") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const char* name : {"qwen3moe-moe", "deepseek2-moe"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    const convert::Requantization plan = convert::plan_requantization(file, models::find_recipe("Q4_0"), {}, nullptr);
    const auto texts = [&](int count) {
      std::vector<std::vector<int32_t>> made(static_cast<size_t>(count));
      for (auto& text : made)
        for (int i = 0; i < 64; ++i) text.push_back(static_cast<int32_t>(random() % program.vocab));
      return made;
    };
    convert::MeasuredText text{texts(16), {}};
    text.score_second_halves(512);
    const convert::DivergenceMeter meter(file, std::move(text), kernels::cpu::make_cpu_executor, 1);
    const auto chunks = texts(32);
    double of[2];
    for (const bool rounds : {false, true}) {
      convert::CalibratedQuantizer calibrated(plan, program, {.feedback = !rounds, .rounding = rounds}, chunks,
                                              kernels::cpu::make_cpu_executor, 1);
      of[rounds] = meter
                       .of(
                           plan, nullptr, convert::encode_on_cpu,
                           [&](std::string_view tensor) { return calibrated.tensor(tensor); }, nullptr)
                       .value;
    }
    CAPTURE(of[0]);
    CHECK(of[1] < 1.05 * of[0]);
  }
}
