// Calibration tokens count by the attention that they receive.
#include "convert/attention_shares.h"

#include "convert/calibrated.h"
#include "convert/calibration.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/recipes/recipe.h"
#include "support/reference.h"

#include <cmath>
#include <random>

using namespace ridge;

namespace {

std::vector<float> normal_rows(std::mt19937_64& random, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

// Keeps the mean squares of the inputs of each Hessian.
class WatchedHessian final : public quant::Hessian {
 public:
  WatchedHessian(int64_t cols, std::vector<std::vector<float>>& seen) : inner_(cols), seen_(seen) {}
  int64_t cols() const override { return inner_.cols(); }
  void add(std::span<const float> inputs) override { inner_.add(inputs); }
  std::vector<float> mean_squares() const override { return seen_.emplace_back(inner_.mean_squares()); }
  double output_error(std::span<const float> errors) const override { return inner_.output_error(errors); }
  void add_originals(std::span<const float> inputs, std::span<const float> originals,
                     std::span<const float> ahead) override {
    inner_.add_originals(inputs, originals, ahead);
  }
  std::vector<float> targets(const float* weights, int64_t rows) override { return inner_.targets(weights, rows); }
  void encode(quant::Type type, const float* weights, int64_t rows, std::byte* out) override {
    inner_.encode(type, weights, rows, out);
  }
  void round(quant::Type type, const float* weights, int64_t rows, std::byte* out) override {
    inner_.round(type, weights, rows, out);
  }

 private:
  quant::CpuHessian inner_;
  std::vector<std::vector<float>>& seen_;
};

// The inputs of the whole model's matrices, in exact mode.
gguf::Imatrix inputs_of(const core::Program& program, const std::vector<int32_t>& ids) {
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = std::ssize(ids);
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  convert::ImatrixCollector collector(program, false);
  config.observer = &collector;
  convert::run_chunk(*kernels::cpu::make_cpu_executor(program, config), ids);
  return collector.result();
}

} // namespace

TEST_CASE("attention shares are those of a softmax in double precision, over windows, caps, slopes and sinks") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr int64_t kTokens = 23;
  const core::KvLayer kv{2, 6, 6};
  const std::vector<float> q = normal_rows(random, kTokens * 4 * 6), k = normal_rows(random, kTokens * 2 * 6);
  for (const core::AttentionParams& params :
       {core::AttentionParams{0, 4, 0.7f}, core::AttentionParams{.layer = 0, .heads = 4, .scale = 0.4f, .window = 5},
        core::AttentionParams{.layer = 0, .heads = 4, .scale = 1, .soft_cap = 2},
        core::AttentionParams{.layer = 0, .heads = 4, .scale = 0.5f, .max_bias = 8},
        core::AttentionParams{.layer = 0, .heads = 4, .scale = 0.5f, .window = 3, .causal = false}}) {
    for (const std::vector<float>& sinks : {std::vector<float>(), std::vector<float>{0.5f, -1, 2, 0}}) {
      std::vector<double> expected(kTokens, 1.0);
      for (int64_t head = 0; head < 4; ++head)
        for (int64_t t = 0; t < kTokens; ++t) {
          std::vector<double> share(kTokens);
          double sum = sinks.empty() ? 0 : std::exp(sinks[head]);
          for (int64_t at = params.first_seen(t); at < std::min(kTokens, params.end_seen(t, kTokens)); ++at) {
            double score = 0;
            for (int64_t d = 0; d < 6; ++d) score += q[(t * 4 + head) * 6 + d] * k[(at * 2 + head / 2) * 6 + d];
            score *= params.scale;
            if (params.soft_cap > 0) score = params.soft_cap * std::tanh(score / params.soft_cap);
            if (params.max_bias > 0) score -= std::exp2(-2.0 * (head + 1)) * std::abs(t - at);
            sum += share[at] = std::exp(score);
          }
          for (int64_t at = 0; at < kTokens; ++at) expected[at] += share[at] / sum / 4;
        }
      std::vector<float> received(kTokens, 1.0f);
      convert::add_attention_shares(params, kv, q, k, sinks, received);
      for (int64_t at = 0; at < kTokens; ++at) CHECK(received[at] == doctest::Approx(expected[at]).epsilon(1e-4));
    }
  }
}

TEST_CASE("keys' and values' inputs weigh as much again in all as others', by the attention to their tokens") {
  REQUIRE_REFERENCE();
  const tests::Recipe recipe("llama-dense");
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const convert::Requantization plan = convert::plan_requantization(file, models::find_recipe("Q8_0"), {}, nullptr);
  // The first layer's inputs are the same for all tokens, so that weights only scale their mean square.
  const std::vector<std::vector<int32_t>> chunks(2, std::vector<int32_t>(16, recipe.ids()[0]));
  std::vector<std::vector<float>> seen;
  convert::CalibratedQuantizer calibrated(plan, program, {.feedback = true}, chunks, kernels::cpu::make_cpu_executor, 1,
                                          [&](int64_t cols) { return std::make_unique<WatchedHessian>(cols, seen); });
  calibrated.tensor("blk.0.attn_q.weight");
  REQUIRE(seen.size() >= 2);

  const gguf::Imatrix plain = inputs_of(program, chunks[0]);
  const auto ratio = [&](const std::vector<float>& weighed, const char* name) {
    const gguf::Imatrix::Entry& entry = plain.entries.at(name);
    double sum = 0, whole = 0;
    for (size_t i = 0; i < weighed.size(); ++i) {
      sum += weighed[i];
      whole += entry.sum_of_squares[i] / entry.counts[0];
    }
    return sum / whole;
  };
  CHECK(ratio(seen[0], "blk.0.attn_k.weight") == doctest::Approx(2).epsilon(0.03));
  CHECK(ratio(seen[1], "blk.0.attn_output.weight") == doctest::Approx(1).epsilon(0.03));
}

TEST_CASE("calibration sees the inputs of models that scale, norm or add to their embeddings") {
  REQUIRE_REFERENCE();
  for (const auto& [name, tensor] : {std::pair("gemma3-dense", "blk.0.ffn_gate.weight"),
                                     {"bloom-dense", "blk.0.ffn_up.weight"},
                                     {"gpt2-dense", "blk.0.ffn_up.weight"}}) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    REQUIRE((std::get<core::EmbedParams>(program.ops[0].params).scale > 2 || program.ops[1].layer < 0));
    const convert::Requantization plan = convert::plan_requantization(file, models::find_recipe("Q8_0"), {}, nullptr);
    std::vector<std::vector<float>> seen;
    convert::CalibratedQuantizer calibrated(plan, program, {.feedback = true}, {recipe.ids()},
                                            kernels::cpu::make_cpu_executor, 1,
                                            [&](int64_t cols) { return std::make_unique<WatchedHessian>(cols, seen); });
    calibrated.tensor(tensor);
    REQUIRE(seen.size() >= 3); // queries, keys and values; attention's output; gate and up

    const gguf::Imatrix whole = inputs_of(program, recipe.ids());
    const gguf::Imatrix::Entry& expected = whole.entries.at(tensor);
    std::vector<float> mean_squares = expected.sum_of_squares;
    for (float& sum : mean_squares) sum /= expected.counts[0];
    CHECK(tests::nmse(seen[2], mean_squares) < 1e-3);
  }
}
