// Programs divided among ranks equal the whole.
#include "core/parallel/parallel_executor.h"

#include "core/error.h"
#include "core/parallel/processes/processes.h"
#include "core/sampler.h"
#include "kernels/cpu/executor/executor.h"
#include "support/ranks.h"
#include "support/recipes/draft_runs.h"
#include "support/recipes/recipe_runs.h"

#include <sys/socket.h>

#include <array>
#include <random>
#include <thread>

using namespace ridge;
using quant::Type;
using tests::RandomProgram;

namespace {

std::unique_ptr<core::Executor> on_ranks(const core::Program& program, core::ExecutorConfig config, int ranks) {
  config.threads = 1;
  return core::make_parallel_executor(tests::shards_of(program, ranks), config, core::make_thread_communicators(ranks),
                                      [](const core::Program& own, const core::ExecutorConfig& own_config, int) {
                                        return kernels::cpu::make_cpu_executor(own, own_config);
                                      });
}

tests::MakeExecutor ranks_of(int ranks) {
  return [ranks](const core::Program& program, const core::ExecutorConfig& config) {
    return on_ranks(program, config, ranks);
  };
}

} // namespace

TEST_CASE("a transformer on several ranks gives the same logits, dense and with experts, in every format") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram random(seed);
  for (const quant::FormatInfo& format : quant::formats())
    for (const int64_t experts : {0, 4}) {
      const int ranks = static_cast<int>(random.integer(2, 8));
      CAPTURE(format.name);
      CAPTURE(experts);
      CAPTURE(ranks);
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.experts = experts;
      shape.used = 2;
      model.transformer(shape, format.type, Type::Q8_0);
      const core::ExecutorConfig config = tests::exact_config();
      const auto whole = kernels::cpu::make_cpu_executor(model.program, config);
      const auto shared = on_ranks(model.program, config, ranks);
      for (const int32_t first : {0, 9, 10}) {
        const tests::Steps steps = tests::consecutive(model, first, first == 9 ? 1 : 9);
        CHECK(tests::nmse(tests::run(*shared, steps), tests::run(*whole, steps)) <= 1e-9);
      }
    }
}

TEST_CASE("heads, gates and experts go to ranks, and what every rank needs stays whole") {
  RandomProgram model(1);
  RandomProgram::Shape shape;
  model.transformer(shape, Type::Q8_0, Type::Q8_0);
  const std::vector<core::Shard> shards = tests::shards_of(model.program, 2);
  double bytes = 0;
  for (const core::Shard& shard : shards) {
    bytes += tests::matrix_bytes(shard.program);
    CHECK(std::ranges::count(shard.program.ops, core::OpKind::all_reduce, &core::Op::kind) == 4);
    CHECK(std::ranges::count(shard.program.ops, core::OpKind::all_gather, &core::Op::kind) == 1);
    CHECK(shard.program.kv_layers[0].heads == 1);
    REQUIRE(shard.origins.size() == shard.program.ops.size());
    for (size_t i = 0; i < shard.origins.size(); ++i)
      if (class_of(shard.program.ops[i].kind) != core::OpClass::exchange)
        CHECK(shard.program.ops[i].name == model.program.ops[shard.origins[i]].name);
  }
  CHECK(bytes == tests::matrix_bytes(model.program));
}

TEST_CASE("recipes, a random eighth of all, give their logits on two, three, four and eight ranks") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int64_t shared = 0, all = 0;
  for (const std::string& name : tests::share_of(tests::known_recipes(), 8)) {
    const int ranks = std::array{2, 3, 4, 8}[random() % 4];
    CAPTURE(name);
    CAPTURE(ranks);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    const std::vector<int32_t> ids = recipe.ids();
    const core::ExecutorConfig config = tests::exact_config();
    const std::vector<float> expected =
        tests::in_pieces(kernels::cpu::make_cpu_executor, program, config, ids, ids.size());
    // Another order of sums changes rounding to f16 (gelu).
    const double bound = recipe.document["spread"].get<double>() > 1e-10 ? 1e-6 : 1e-9;
    for (const size_t size : {ids.size(), size_t{7}})
      CHECK(tests::nmse(tests::in_pieces(ranks_of(ranks), program, config, ids, size), expected) <= bound);
    CHECK(tests::nmse(tests::after_going_back(ranks_of(ranks), program, config, ids), expected) <= bound);
    const core::Program two = core::shard_program(program, 0, 2, tests::block_weights).program;
    shared += tests::matrix_bytes(two) < 0.9 * tests::matrix_bytes(program);
    ++all;
  }
  MESSAGE(shared, " of ", all, " recipes are shared out to two ranks");
  CHECK(shared > all / 2);
}

TEST_CASE("draft heads get the hidden rows of several ranks, and may be several ranks themselves") {
  REQUIRE_REFERENCE();
  int64_t count = 0;
  for (const std::string& name : tests::draft_recipes()) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    if (!models::find_architecture(recipe.document["metadata"][0][2].get<std::string>())) continue;
    const gguf::File file = recipe.open();
    const std::vector<int32_t> ids = recipe.ids();
    const core::ExecutorConfig config = tests::exact_config();
    const std::vector<float> expected =
        tests::draft_logits(file, kernels::cpu::make_cpu_executor, config, ids, ids.size());
    for (const size_t size : {ids.size(), size_t{5}})
      CHECK(tests::nmse(tests::draft_logits(file, ranks_of(2), config, ids, size), expected) <= 1e-6);
    ++count;
  }
  CHECK(count > 0);
}

TEST_CASE("caches of several ranks are saved and restored as one") {
  RandomProgram model(tests::fresh_seed());
  RandomProgram::Shape shape;
  model.transformer(shape, Type::Q8_0, Type::Q8_0);
  const auto executor = on_ranks(model.program, tests::exact_config(), 2);
  const tests::Steps prompt = tests::consecutive(model, 0, 40), next = tests::consecutive(model, 40, 1);
  tests::run(*executor, prompt);
  const std::vector<float> expected = tests::run(*executor, next);
  CHECK(executor->block_layout() !=
        kernels::cpu::make_cpu_executor(model.program, tests::exact_config())->block_layout());
  std::vector<std::shared_ptr<std::byte>> blocks;
  std::vector<std::byte*> to;
  for (int64_t at = 0; at < 40; at += core::block_positions(model.program)) {
    blocks.push_back(executor->make_block());
    to.push_back(blocks.back().get());
  }
  executor->save_blocks(0, 0, to);
  tests::run(*executor, tests::consecutive(model, 0, 40));
  executor->load_blocks(0, 0, std::vector<const std::byte*>(to.begin(), to.end()));
  CHECK(tests::run(*executor, next) == expected);
}

TEST_CASE("a rank that fails stops the others, and says why") {
  RandomProgram model(1);
  RandomProgram::Shape shape;
  model.transformer(shape, Type::Q8_0, Type::Q8_0);
  const auto make = [&](int broken) {
    return core::make_parallel_executor(tests::shards_of(model.program, 3), tests::exact_config(),
                                        core::make_thread_communicators(3),
                                        [=](const core::Program& own, const core::ExecutorConfig& config, int rank) {
                                          if (rank == broken) throw Error("rank 1: the card is gone");
                                          return kernels::cpu::make_cpu_executor(own, config);
                                        });
  };
  CHECK_THROWS_WITH_AS(make(1), "rank 1: the card is gone", Error);

  auto communicators = core::make_thread_communicators(2);
  communicators[1]->fail("rank 1: the card is gone");
  std::vector<float> values(4);
  communicators[0]->all_reduce(values);
  CHECK_THROWS_WITH_AS(communicators[0]->check(), "rank 1: the card is gone", Error);
}

namespace {

// The second is behind a connection.
class RankBehindConnection {
 public:
  RankBehindConnection(const core::Program& program, const core::ExecutorConfig& config)
      : shard_(core::shard_program(program, 1, 2, tests::block_weights)) {
    auto [commands, their_commands] = pair();
    auto [values, their_values] = pair();
    thread_ =
        std::thread([this, config, commands = std::move(their_commands), values = std::move(their_values)]() mutable {
          std::vector<std::unique_ptr<core::Connection>> link;
          link.push_back(std::move(values));
          const auto communicator = core::make_process_communicator(std::move(link), 1, 2);
          core::ExecutorConfig own = config;
          own.communicator = communicator.get();
          const auto executor = kernels::cpu::make_cpu_executor(shard_.program, own);
          core::serve_rank(*executor, *commands);
        });
    commands_ = commands.get();
    std::vector<core::Shard> shards(2);
    shards[0] = core::shard_program(program, 0, 2, tests::block_weights);
    std::vector<std::unique_ptr<core::Connection>> links(2);
    links[1] = std::move(values);
    std::vector<std::unique_ptr<core::Communicator>> communicators(2);
    communicators[0] = core::make_process_communicator(std::move(links), 0, 2);
    executor_ =
        core::make_parallel_executor(std::move(shards), config, std::move(communicators),
                                     [&](const core::Program& own, const core::ExecutorConfig& own_config, int rank) {
                                       return rank == 0 ? kernels::cpu::make_cpu_executor(own, own_config)
                                                        : core::make_remote_executor(std::move(commands), own_config);
                                     });
  }
  ~RankBehindConnection() {
    executor_.reset();
    thread_.join();
  }

  core::Executor& executor() { return *executor_; }
  void lose() { commands_->close(); }

 private:
  using Ends = std::pair<std::unique_ptr<core::Connection>, std::unique_ptr<core::Connection>>;
  static Ends pair() {
    int sockets[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    return {std::make_unique<core::Connection>(sockets[0], "rank 1"),
            std::make_unique<core::Connection>(sockets[1], "rank 0")};
  }

  const core::Shard shard_;
  std::thread thread_;
  core::Connection* commands_;
  std::unique_ptr<core::Executor> executor_;
};

} // namespace

TEST_CASE("a rank in another process evaluates, goes back and restores as one beside the first") {
  RandomProgram model(tests::fresh_seed());
  RandomProgram::Shape shape;
  model.transformer(shape, Type::Q8_0, Type::Q8_0);
  const core::ExecutorConfig config = tests::exact_config();
  RankBehindConnection ranks(model.program, config);
  core::Executor& executor = ranks.executor();
  const auto whole = kernels::cpu::make_cpu_executor(model.program, config);
  const tests::Steps prompt = tests::consecutive(model, 0, 40), next = tests::consecutive(model, 40, 1);
  CHECK(tests::nmse(tests::run(executor, prompt), tests::run(*whole, prompt)) <= 1e-9);
  const std::vector<float> expected = tests::run(executor, next);
  CHECK(tests::nmse(expected, tests::run(*whole, next)) <= 1e-9);

  std::vector<std::shared_ptr<std::byte>> blocks;
  std::vector<std::byte*> to;
  for (int64_t at = 0; at < 40; at += core::block_positions(model.program)) {
    blocks.push_back(executor.make_block());
    to.push_back(blocks.back().get());
  }
  executor.save_blocks(0, 0, to);
  tests::run(executor, tests::consecutive(model, 0, 40));
  executor.load_blocks(0, 0, std::vector<const std::byte*>(to.begin(), to.end()));
  CHECK(tests::run(executor, next) == expected);

  core::SamplerParams greedy;
  CHECK(!executor.can_choose(greedy));
  CHECK(!executor.can_chain(greedy));

  ranks.lose();
  CHECK_THROWS_AS(executor.forward(next.batch()), Error);
}

TEST_CASE("a rank in another process keeps states of recurrent layers") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::known_recipes();
  const auto recurrent =
      std::ranges::find_if(names, [](const std::string& name) { return name.starts_with("qwen35"); });
  REQUIRE(recurrent != names.end());
  const tests::Recipe recipe(*recurrent);
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  REQUIRE(!program.states.empty());
  const std::vector<int32_t> ids = recipe.ids();
  const core::ExecutorConfig config = tests::exact_config();
  RankBehindConnection ranks(program, config);
  core::Executor& executor = ranks.executor();
  std::vector<float> logits, dropped, state(executor.saved_floats());
  tests::run_pieces(executor, ids, 0, 20, 20, logits);
  executor.save_state(0, state, 20);
  tests::run_pieces(executor, ids, 20, ids.size(), 5, dropped);
  executor.load_state(0, state, 20);
  tests::run_pieces(executor, ids, 20, ids.size(), ids.size(), logits);
  CHECK(tests::nmse(logits, tests::in_pieces(kernels::cpu::make_cpu_executor, program, config, ids, ids.size())) <=
        1e-9);
}

namespace {

int64_t state_of_heads(const core::Program& program) {
  int64_t elements = 0;
  for (core::Op op : program.ops)
    if (op.kind == core::OpKind::delta_rule || op.kind == core::OpKind::scan)
      elements += program.states[*core::state_layer(op.params)].width;
  return elements;
}

bool has_shareable_state(const core::Program& program) {
  return std::ranges::any_of(program.ops, [](const core::Op& op) {
    const auto* delta = std::get_if<core::DeltaParams>(&op.params);
    const auto* scan = std::get_if<core::ScanParams>(&op.params);
    return (delta && delta->k_heads > 1) || (scan && scan->heads > 1);
  });
}

std::vector<std::string> recipes_with_shareable_states() {
  std::vector<std::string> names;
  for (const std::string& name : tests::known_recipes())
    if (const tests::Recipe recipe(name); recipe.has_tensor(".ssm_"))
      if (const gguf::File file = recipe.open(); has_shareable_state(models::build_program(file)))
        names.push_back(name);
  return names;
}

std::vector<float> after_returning(core::Executor& executor, std::span<const int32_t> ids) {
  const size_t half = ids.size() / 2;
  std::vector<float> logits, dropped;
  tests::run_pieces(executor, ids, 0, half, half, logits);
  executor.mark_state(0);
  tests::run_pieces(executor, ids, half, half + 3, 3, dropped);
  executor.restore_mark();
  tests::run_pieces(executor, ids, half, ids.size(), ids.size(), logits);
  return logits;
}

} // namespace

TEST_CASE("heads with a recurrent state go to ranks, the rows and columns of their matrices with them") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = recipes_with_shareable_states();
  CHECK(names.size() > 10);
  for (const std::string& name : names) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    for (const core::Shard& shard : tests::shards_of(program, 2)) {
      CHECK(2 * state_of_heads(shard.program) == state_of_heads(program));
      for (size_t i = 0; i < shard.program.ops.size(); ++i) {
        const core::Op &own = shard.program.ops[i], &whole = program.ops[shard.origins[i]];
        if (own.kind == core::OpKind::linear && own.name.find(".ssm_out") != std::string::npos)
          CHECK(2 * shard.program.weights[own.weights[0]].total_bytes() ==
                program.weights[whole.weights[0]].total_bytes());
      }
    }
  }
}

TEST_CASE("recurrent recipes, a random eighth of them, go on from saved states and from marks on several ranks") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const std::string& name : tests::share_of(recipes_with_shareable_states(), 8)) {
    const int ranks = std::array{2, 3, 4, 8}[random() % 4];
    CAPTURE(name);
    CAPTURE(ranks);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    const std::vector<int32_t> ids = recipe.ids();
    for (const bool exact : {true, false}) {
      CAPTURE(exact);
      core::ExecutorConfig config = exact ? tests::exact_config() : tests::fast_config();
      config.wide = true;
      const double bound = exact ? 1e-9 : 1e-5;
      const auto whole = kernels::cpu::make_cpu_executor(program, config);
      const std::vector<float> expected = after_returning(*whole, ids);
      const auto difference = [&](const std::vector<float>& logits) {
        return exact ? tests::nmse(logits, expected)
                     : tests::nmse_of_most(logits, expected, expected.size() / ids.size());
      };
      CHECK(difference(after_returning(*on_ranks(program, config, ranks), ids)) <= bound);
      CHECK(difference(tests::after_going_back(ranks_of(ranks), program, config, ids)) <= bound);
    }
  }
}
