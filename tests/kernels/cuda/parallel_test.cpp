// Ranks on GPUs: one through the host, several by peer memory.
#include "core/parallel/parallel_executor.h"

#include "core/sampler.h"
#include "device.h"
#include "greedy.h"
#include "kernels/cuda/exchange/exchange.h"
#include "support/ranks.h"
#include "support/recipes/recipe_runs.h"

#include <cstdlib>
#include <numeric>
#include <random>

using namespace ridge;
using quant::Type;
using tests::RandomProgram;

namespace {

// One GPU holds all ranks if there are too few.
std::unique_ptr<core::Executor> on_ranks(const core::Program& program, const core::ExecutorConfig& config, int ranks,
                                         bool on_one = false, const tests::GpuOptions& of_all = {}) {
  std::vector<core::Shard> shards = tests::shards_of(program, ranks);
  const bool several = kernels::cuda::device_count() >= ranks && !on_one;
  std::vector<int> gpus(ranks);
  if (several) std::iota(gpus.begin(), gpus.end(), 0);
  auto communicators =
      several ? kernels::cuda::make_exchange(gpus, kernels::cuda::max_exchanged_floats(shards[0].program, config))
              : core::make_thread_communicators(ranks);
  return core::make_parallel_executor(std::move(shards), config, std::move(communicators),
                                      [&](const core::Program& own, const core::ExecutorConfig& own_config, int rank) {
                                        tests::GpuOptions options = of_all;
                                        options.device = gpus[rank];
                                        return tests::make_cuda_executor(own, own_config, options);
                                      });
}

core::ExecutorConfig config_of(bool exact) {
  core::ExecutorConfig config = exact ? tests::exact_config() : tests::fast_config();
  config.max_batch = 256;
  config.max_outputs = 256;
  config.context = 512;
  config.streams = 3;
  return config;
}

// Worst NMSE; with `most`, of the best three quarters of tokens, because rounding may choose other experts.
double worst_difference(core::Executor& a, core::Executor& b, RandomProgram& model, bool most = false) {
  double worst = 0;
  const auto compare = [&](const tests::Steps& steps) {
    const std::vector<float> rows = tests::run(a, steps), reference = tests::run(b, steps);
    const auto width = static_cast<size_t>(model.program.vocab);
    worst = tests::worse(worst, most ? tests::nmse_of_most(rows, reference, width) : tests::nmse(rows, reference));
  };
  std::vector<int32_t> next(3, 0);
  for (const int32_t count : {200, 1, 1, 2, 7, 33, 100}) {
    const tests::Steps steps = tests::consecutive(model, next[0], count);
    next[0] += count;
    compare(steps);
  }
  for (int i = 0; i < 3; ++i) {
    tests::Steps steps;
    for (int32_t stream = 0; stream < 3; ++stream) {
      steps.tokens.push_back(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
      steps.positions.push_back(next[stream]++);
      steps.streams.push_back(stream);
      steps.outputs.push_back(stream);
    }
    compare(steps);
  }
  return worst;
}

RandomProgram::Shape shape_of(int64_t experts) {
  RandomProgram::Shape shape;
  shape.width = 512;
  shape.hidden = 1024;
  shape.heads = 8;
  shape.kv_heads = 4;
  shape.vocab = 1000;
  shape.experts = experts;
  shape.used = 2;
  return shape;
}

} // namespace

TEST_CASE("CUDA: a transformer on several ranks, dense and with experts, in every format") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : quant::formats())
    for (const int64_t experts : {0, 4}) {
      CAPTURE(format.name);
      CAPTURE(experts);
      RandomProgram model(seed);
      model.transformer(shape_of(experts), format.type, Type::Q6_K);
      for (const bool exact : {true, false}) {
        CAPTURE(exact);
        const auto whole = tests::make_executor(model.program, config_of(exact));
        const auto shared = on_ranks(model.program, config_of(exact), 2);
        const bool chooses = !exact && experts > 0;
        CHECK(worst_difference(*shared, *whole, model, chooses) <= (exact ? 1e-9 : tests::single_token_bound(format)));
      }
    }
}

// Sent by long prompts' products to the ranks that add up (1,100 and 1,003 tokens), or summed in pieces.
TEST_CASE("CUDA: long prompts on several ranks") {
  REQUIRE_DEVICE();
  struct Case {
    Type type;
    int64_t width, hidden;
  };
  for (const Case& of : {Case{Type::Q8_0, 1056, 8192}, Case{Type::Q4_K, 2304, 768}}) {
    CAPTURE(of.width);
    RandomProgram model(tests::fresh_seed());
    RandomProgram::Shape shape = shape_of(0);
    shape.width = of.width;
    shape.hidden = of.hidden;
    model.transformer(shape, of.type, of.type);
    for (const bool exact : {true, false})
      for (const int ranks : {2, 3, 4}) {
        if (ranks > 2 && kernels::cuda::device_count() < ranks) continue;
        CAPTURE(exact);
        CAPTURE(ranks);
        core::ExecutorConfig config = config_of(exact);
        config.max_batch = config.context = 1100;
        tests::GpuOptions prompt; // others round differently, and do not send
        prompt.way = "prompt";
        const auto whole = tests::make_cuda_executor(model.program, config, prompt);
        const auto shared = on_ranks(model.program, config, ranks, false, prompt);
        for (const int32_t count : {1100, 1003, 300}) {
          CAPTURE(count);
          tests::Steps steps = tests::consecutive(model, 0, count);
          steps.outputs = {0, count / 2, count - 1};
          CHECK(tests::nmse(tests::run(*shared, steps), tests::run(*whole, steps)) <= (exact ? 1e-9 : 1e-5));
        }
      }
  }
}

TEST_CASE("CUDA: three, four and eight ranks on one GPU") {
  REQUIRE_DEVICE();
  RandomProgram model(tests::fresh_seed());
  RandomProgram::Shape shape = shape_of(0);
  shape.heads = shape.kv_heads = 8;
  shape.hidden = 2048;
  model.transformer(shape, Type::Q4_K, Type::Q6_K);
  const auto whole = tests::make_executor(model.program, config_of(true));
  for (const int ranks : {3, 4, 8}) {
    CAPTURE(ranks);
    const auto shared = on_ranks(model.program, config_of(true), ranks, true);
    CHECK(worst_difference(*shared, *whole, model) <= 1e-9);
  }
}

TEST_CASE("CUDA: recipes on two ranks") {
  REQUIRE_REFERENCE();
  REQUIRE_DEVICE();
  const std::vector<std::string> names = tests::known_recipes();
  std::mt19937_64 random(tests::fresh_seed());
  constexpr size_t kOf = 8;
  for (size_t i = random() % kOf; i < names.size(); i += 1 + random() % (2 * kOf)) {
    CAPTURE(names[i]);
    const tests::Recipe recipe(names[i]);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    const std::vector<int32_t> ids = recipe.ids();
    const auto two = [](const core::Program& p, const core::ExecutorConfig& c) { return on_ranks(p, c, 2); };
    for (const size_t size : {ids.size(), size_t{1}})
      CHECK(tests::nmse(tests::in_pieces(two, program, tests::exact_config(), ids, size),
                        tests::in_pieces(tests::make_executor, program, tests::exact_config(), ids, size)) <= 1e-6);
  }
}

TEST_CASE("CUDA: tokens chosen on several GPUs are the same each time, and all ranks go on with them") {
  REQUIRE_DEVICE();
  if (kernels::cuda::device_count() < 2) {
    MESSAGE("skipped: one GPU");
    return;
  }
  RandomProgram model(tests::fresh_seed());
  model.transformer(shape_of(0), Type::Q4_K, Type::Q6_K);
  core::SamplerParams params;
  params.seed = 7;
  const core::Sampler sampler(params, model.program.vocab);
  const tests::Steps prompt = [&] {
    tests::Steps steps = tests::consecutive(model, 0, 20);
    steps.outputs = {19};
    return steps;
  }();
  const auto executor = on_ranks(model.program, config_of(false), 2);
  const auto write = [&] {
    std::vector<int32_t> tokens;
    tests::begin_chain(*executor, prompt.batch(), sampler);
    for (int i = 0; i < 400; ++i) tokens.push_back(tests::next_token(*executor, 20 + i, i < 399));
    return tokens;
  };
  const std::vector<int32_t> first = write();
  CHECK(std::ranges::count(first, -1) == 0);
  const char* const wanted = std::getenv("RIDGE_RANK_STEPS");
  const int answers = wanted ? std::atoi(wanted) / 400 : 20;
  for (int i = 0; i < answers; ++i) CHECK(write() == first);
}

TEST_CASE("CUDA: a rank that fails ends the others' waiting") {
  REQUIRE_DEVICE();
  if (kernels::cuda::device_count() < 2) {
    MESSAGE("skipped: one GPU");
    return;
  }
  RandomProgram model(1);
  model.transformer(shape_of(0), Type::Q8_0, Type::Q8_0);
  const core::Shard first = tests::shards_of(model.program, 2)[0];
  const std::vector<int> gpus = {0, 1};
  core::ExecutorConfig config = config_of(false);
  const auto communicators =
      kernels::cuda::make_exchange(gpus, kernels::cuda::max_exchanged_floats(first.program, config));
  config.communicator = communicators[0].get();
  const auto executor = tests::make_cuda_executor(first.program, config);
  communicators[1]->fail("rank 1: the card is gone");
  CHECK_THROWS_WITH_AS(executor->forward(tests::consecutive(model, 0, 1).batch()), "rank 1: the card is gone", Error);
}
