// A Program cut at any layer equals the whole.
#include "core/stages/split.h"

#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/random_program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <numeric>

using namespace ridge;
using quant::Type;
using tests::RandomProgram;

namespace {

core::ExecutorConfig config(bool exact) {
  core::ExecutorConfig config;
  config.context = 64;
  config.max_batch = 16;
  config.max_outputs = 4;
  config.streams = 2;
  config.threads = 2;
  config.exact = exact;
  if (exact) config.k_type = config.v_type = core::KvType::f32;
  return config;
}

std::vector<float> logits_of(core::Executor& executor, int64_t vocab) {
  std::vector<float> logits;
  std::vector<int32_t> next(2, 0);
  struct Run {
    int32_t stream, count;
    std::vector<int32_t> outputs;
  };
  for (const Run& run : {Run{0, 9, {2, 8}}, {1, 16, {}}, {1, 1, {0}}, {2, 6, {0, 3, 4, 5}}, {0, 1, {0}}}) {
    std::vector<int32_t> tokens, positions, streams;
    for (int32_t i = 0; i < run.count; ++i) {
      const int32_t stream = run.stream < 2 ? run.stream : i % 2;
      tokens.push_back(static_cast<int32_t>((7 * next[stream] + 3 * i + 1) % vocab));
      positions.push_back(next[stream]++);
      streams.push_back(stream);
    }
    executor.forward({tokens, positions, streams, run.outputs});
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      const std::span<const float> row = executor.logits(static_cast<int64_t>(i));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    CHECK_THROWS_AS(executor.logits(std::ssize(run.outputs)), std::logic_error);
  }
  return logits;
}

void check_all_cuts(const core::Program& program) {
  for (const bool exact : {true, false}) {
    CAPTURE(exact);
    const auto whole = kernels::cpu::make_cpu_executor(program, config(exact));
    const std::vector<float> expected = logits_of(*whole, program.vocab);
    for (int32_t layer = 1; layer <= core::layer_count(program); ++layer) {
      CAPTURE(layer);
      core::SplitProgram parts = core::split_program(program, layer);
      CHECK(parts.front.kv_layers.size() + parts.back.kv_layers.size() == program.kv_layers.size());
      CHECK(parts.front.kv_layers.size() == static_cast<size_t>(layer));
      const double bytes = core::program_cost(parts.front, {.tokens = 3}).bytes() +
                           core::program_cost(parts.back, {.tokens = 3}).bytes();
      CHECK(bytes == doctest::Approx(core::program_cost(program, {.tokens = 3}).bytes()));
      const auto split = core::make_split_executor(std::move(parts), config(exact), kernels::cpu::make_cpu_executor,
                                                   kernels::cpu::make_cpu_executor);
      CHECK(logits_of(*split, program.vocab) == expected);
    }
  }
}

} // namespace

TEST_CASE("a Program split at any layer gives the same logits, bit for bit, dense and with experts") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t experts : {0, 4}) {
    RandomProgram model(seed);
    RandomProgram::Shape shape;
    shape.layers = 3;
    shape.experts = experts;
    shape.used = 2;
    model.transformer(shape, Type::Q8_0, Type::Q6_K);
    check_all_cuts(model.program);
  }
}

TEST_CASE("a pipeline of stages gives the same logits, bit for bit, and no more stages than there are layers") {
  RandomProgram model(tests::fresh_seed());
  RandomProgram::Shape shape;
  shape.layers = 5;
  model.transformer(shape, Type::Q8_0, Type::Q6_K);
  const core::ExecutorConfig own = config(true);
  const std::vector<float> expected =
      logits_of(*kernels::cpu::make_cpu_executor(model.program, own), model.program.vocab);
  for (int stages = 1; stages <= 6; ++stages) {
    CAPTURE(stages);
    std::vector<double> bytes(static_cast<size_t>(stages));
    const auto executor = core::make_pipeline_executor(
        model.program, own, stages, [&](const core::Program& part, const core::ExecutorConfig& config, int stage) {
          bytes[stage] = core::program_cost(part, {}).weight_bytes;
          return kernels::cpu::make_cpu_executor(part, config);
        });
    CHECK(logits_of(*executor, model.program.vocab) == expected);
    CHECK(std::ranges::min(bytes) > 0);
    if (stages == 2) CHECK(std::ranges::max(bytes) < 0.7 * core::program_cost(model.program, {}).weight_bytes);
  }
  CHECK_THROWS_AS(core::make_pipeline_executor(model.program, own, 7,
                                               [](const core::Program& part, const core::ExecutorConfig& config, int) {
                                                 return kernels::cpu::make_cpu_executor(part, config);
                                               }),
                  Error);
}

namespace {

// Fails at its second batch of the first evaluation.
class Failing final : public core::Executor {
 public:
  Failing(std::unique_ptr<core::Executor> inner, int fails_at) : inner_(std::move(inner)), left_(fails_at) {}
  void submit(const core::Batch& batch, const core::Choosing& choosing) override {
    if (--left_ == 0) throw Error("the stage is gone");
    inner_->submit(batch, choosing);
  }
  std::span<const int32_t> wait() override { return inner_->wait(); }
  std::span<const float> logits(int64_t i) override { return inner_->logits(i); }
  const core::ExecutorConfig& config() const override { return inner_->config(); }
  std::string_view description() const override { return inner_->description(); }
  double memory_bytes() const override { return inner_->memory_bytes(); }

 private:
  const std::unique_ptr<core::Executor> inner_;
  int left_;
};

// 900 tokens of two streams, some with logits.
std::vector<float> logits_of_long_batch(core::Executor& executor, int64_t vocab) {
  std::vector<int32_t> tokens, positions, streams;
  for (int32_t i = 0; i < 900; ++i) {
    tokens.push_back(static_cast<int32_t>((11 * i + 5) % vocab));
    positions.push_back(i < 400 ? i : i - 400);
    streams.push_back(i < 400 ? 0 : 1);
  }
  const std::vector<int32_t> outputs = {2, 399, 400, 800, 899};
  executor.forward({tokens, positions, streams, outputs});
  std::vector<float> logits;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::span<const float> row = executor.logits(static_cast<int64_t>(i));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  CHECK_THROWS_AS(executor.logits(std::ssize(outputs)), std::logic_error);
  return logits;
}

} // namespace

TEST_CASE("stages work at pieces of a long batch at once, and give the same logits, bit for bit") {
  RandomProgram model(tests::fresh_seed());
  RandomProgram::Shape shape;
  shape.layers = 4;
  model.transformer(shape, Type::Q8_0, Type::Q6_K);
  core::ExecutorConfig own = config(true);
  own.context = 1024;
  own.max_batch = 1000;
  own.max_outputs = 8;
  own.threads = 1;
  const std::vector<float> expected =
      logits_of_long_batch(*kernels::cpu::make_cpu_executor(model.program, own), model.program.vocab);
  for (int stages = 2; stages <= 4; ++stages) {
    CAPTURE(stages);
    const auto executor = core::make_pipeline_executor(
        model.program, own, stages, [](const core::Program& part, const core::ExecutorConfig& config, int) {
          return kernels::cpu::make_cpu_executor(part, config);
        });
    CHECK(logits_of_long_batch(*executor, model.program.vocab) == expected);
    CHECK(logits_of_long_batch(*executor, model.program.vocab) == expected);
  }
  for (int broken = 0; broken < 3; ++broken) {
    CAPTURE(broken);
    const auto executor =
        core::make_pipeline_executor(model.program, own, 3,
                                     [&](const core::Program& part, const core::ExecutorConfig& config,
                                         int stage) -> std::unique_ptr<core::Executor> {
                                       auto made = kernels::cpu::make_cpu_executor(part, config);
                                       if (stage != broken) return made;
                                       return std::make_unique<Failing>(std::move(made), 2);
                                     });
    CHECK_THROWS_WITH_AS(logits_of_long_batch(*executor, model.program.vocab), "the stage is gone", Error);
    CHECK(logits_of_long_batch(*executor, model.program.vocab) == expected);
  }
}

TEST_CASE("a model whose last layer gathers its tokens splits anywhere, also with one matrix for input and output") {
  const tests::TemporaryFolder folder;
  tests::TinyModel tiny;
  tiny.layers = 3;
  tiny.write(folder / "tiny.gguf");
  const gguf::File file = gguf::File::open(folder / "tiny.gguf");
  core::Program program = models::build_program(file);
  check_all_cuts(program);
  for (core::Op& op : program.ops)
    if (op.name.starts_with("output") && op.kind == core::OpKind::linear) op.weights[0] = program.ops[0].weights[0];
  REQUIRE(program.ops.back().weights == program.ops.front().weights);
  check_all_cuts(program);
}

TEST_CASE("layers that attend to positions that one of them chose stay together") {
  RandomProgram m(1);
  m.program.kv_layers = {{1, 8, 0, true}, {1, 24, 16, true}, {1, 24, 16, true}};
  core::ValueId x = m.embed(Type::F32, 16, 16);
  const core::ValueId chosen = m.value(3, false, core::ValueKind::i32);
  for (m.layer = 0; m.layer < 3; ++m.layer) {
    if (m.layer == 0) {
      m.op(core::OpKind::index_store, {m.linear(x, Type::F32, 8)}, {}, 0, core::KvParams{0});
      m.program.ops.push_back({core::OpKind::index_choice,
                               0,
                               "choice",
                               {m.linear(x, Type::F32, 16), m.linear(x, Type::F32, 2)},
                               {chosen},
                               {},
                               core::IndexParams{0, 2}});
    }
    if (m.layer < 2) {
      const int32_t cache = m.layer + 1;
      m.op(core::OpKind::latent_store, {m.linear(x, Type::F32, 16), m.linear(x, Type::F32, 8)}, {}, 0,
           core::KvParams{cache});
      x = m.op(core::OpKind::chosen_attention, {m.linear(x, Type::F32, 16), m.linear(x, Type::F32, 8), chosen}, {}, 16,
               core::AttentionParams{cache, 1, 300});
    } else {
      x = m.linear(x, Type::F32, 16);
    }
  }
  m.layer = -1;
  m.finish(x);
  CHECK(core::next_cut(m.program, 1) == 2);
  CHECK_THROWS_AS(core::split_program(m.program, 1), std::logic_error);
  const core::SplitProgram parts = core::split_program(m.program, 2);
  CHECK(parts.front.kv_layers.size() == 3);
  CHECK(parts.back.kv_layers.empty());
}

TEST_CASE("there is no splitting before the first layer or behind the output") {
  RandomProgram model(1);
  model.transformer({}, Type::F32, Type::F32);
  CHECK(core::layer_count(model.program) == 2);
  CHECK_THROWS_AS(core::split_program(model.program, 0), std::logic_error);
  CHECK_THROWS_AS(core::split_program(model.program, 3), std::logic_error);
}

TEST_CASE("layers that share a cache stay together, and what all layers need of the tokens is computed twice") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  using core::OpKind;
  core::ValueId x = model.embed(Type::F32, 32, 20);
  const core::ValueId extra = model.norm(model.op(OpKind::embed, {}, {model.weight(Type::F32, 32, 20)}, 32), 32);
  for (model.layer = 0; model.layer < 5; ++model.layer) {
    const bool shares = model.layer == 2;
    if (!shares) {
      const core::ValueId k = model.linear(x, Type::F32, 16), v = model.linear(x, Type::F32, 16);
      const auto cache = static_cast<int32_t>(model.program.kv_layers.size());
      model.program.kv_layers.push_back({1, 16, 16});
      model.op(OpKind::kv_store, {k, v}, {}, 0, core::KvParams{cache});
    }
    const core::ValueId h = model.op(OpKind::attention, {model.linear(x, Type::F32, 32)}, {}, 32,
                                     core::AttentionParams{shares ? 1 : model.layer - (model.layer > 2), 2, 0.25f});
    x = model.op(OpKind::add, {x, h}, {}, 32);
    x = model.op(OpKind::add, {x, extra}, {}, 32);
  }
  model.layer = -1;
  model.finish(x);

  const core::Program& program = model.program;
  CHECK(core::next_cut(program, 1) == 1);
  CHECK(core::next_cut(program, 2) == 3);
  CHECK(core::next_cut(program, 5) == 5);
  CHECK_THROWS_AS(core::split_program(program, 2), std::logic_error);
  const auto whole = kernels::cpu::make_cpu_executor(program, config(true));
  const std::vector<float> expected = logits_of(*whole, program.vocab);
  for (const int32_t layer : {1, 3, 4, 5}) {
    CAPTURE(layer);
    core::SplitProgram parts = core::split_program(program, layer);
    CHECK(parts.back.ops.front().kind == (layer < 5 ? OpKind::embed : OpKind::gather));
    const auto split = core::make_split_executor(std::move(parts), config(true), kernels::cpu::make_cpu_executor,
                                                 kernels::cpu::make_cpu_executor);
    CHECK(logits_of(*split, program.vocab) == expected);
  }
}
