// The CPU executor against the meaning of Programs (naive.h), for every op, every format and every instruction set.
#include "kernels/cpu/executor.h"

#include "kernels/cpu/targets.h"
#include "naive.h"
#include "random_program.h"
#include "support/numerics.h"

#include "core/error.h"

#include <numeric>

using namespace ridge;
using core::OpKind;
using quant::Type;
using tests::Naive;
using tests::RandomProgram;

namespace {

// Bounds on NMSE. Exact mode differs from double precision by f32 rounding; 8-bit dots, too, where the inputs lose
// nothing, but codes stored plus 128 cancel a few digits. Whole random models in fast mode are far more sensitive than
// trained ones.
constexpr double kExact = 1e-9, kDots = 1e-8, kFastModel = 1e-2;
// Formats whose codes are only near the weights (quant/group.h: LevelFormat), of random bytes; real weights are nearer.
constexpr double kLevels = 1e-3;

struct Steps {
  std::vector<int32_t> tokens, positions, streams, outputs;
  core::Batch batch() const { return {tokens, positions, streams, outputs}; }
};

// `count` random tokens from `first` on, all of them wanted.
Steps consecutive(RandomProgram& model, int32_t first, int32_t count, int32_t stream = 0) {
  Steps steps;
  for (int32_t i = 0; i < count; ++i) {
    steps.tokens.push_back(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
    steps.positions.push_back(first + i);
    steps.streams.push_back(stream);
    steps.outputs.push_back(i);
  }
  return steps;
}

core::ExecutorConfig exact_config() {
  core::ExecutorConfig config;
  config.context = 64;
  config.max_batch = 64;
  config.k_type = config.v_type = core::KvType::f32;
  config.threads = 2;
  config.exact = true;
  return config;
}
core::ExecutorConfig fast_config() {
  core::ExecutorConfig config = exact_config();
  config.k_type = config.v_type = core::KvType::f16;
  config.exact = false;
  return config;
}

std::vector<float> run(core::Executor& executor, const Steps& steps) {
  executor.forward(steps.batch());
  std::vector<float> all;
  for (size_t i = 0; i < steps.outputs.size(); ++i) {
    const std::span<const float> row = executor.logits(static_cast<int64_t>(i));
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

// Runs batches of several sizes through both; the cache carries over from one to the next.
double worst_error(RandomProgram& model, const core::ExecutorConfig& config, std::vector<int32_t> sizes) {
  const auto executor = kernels::cpu::make_cpu_executor(model.program, config);
  Naive naive(model.program, config.k_type == core::KvType::f16);
  double worst = 0;
  int32_t position = 0;
  for (int32_t size : sizes) {
    const Steps steps = consecutive(model, position, size);
    position += size;
    const double error = tests::nmse(run(*executor, steps), naive.forward(steps.batch()));
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  return worst;
}

// Every instruction set that was compiled and that this CPU has, one after the other.
template <typename Run>
void for_each_target(const Run& run) {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = usable; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    const std::string name = hwy::TargetName(target);
    CAPTURE(name);
    run();
  }
  hwy::SetSupportedTargetsForTest(0);
}

} // namespace

TEST_CASE("exact mode computes every op as defined, whatever the shape") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const auto check = [&](const char* name, auto&& build) {
    CAPTURE(name);
    for_each_target([&] {
      RandomProgram model(seed);
      build(model);
      CHECK(worst_error(model, exact_config(), {1, 5, 2, 7}) < kExact);
    });
  };
  check("embed and linear", [](RandomProgram& m) { m.finish(m.embed(Type::F32, m.integer(1, 70), m.integer(1, 70))); });
  check("bias",
        [](RandomProgram& m) { m.finish(m.linear(m.embed(Type::F16, 33, 50), Type::F16, m.integer(1, 99), true)); });
  check("rms_norm of rows", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 300);
    m.finish(m.norm(m.embed(Type::F32, width, 20), width));
  });
  check("rms_norm of heads", [](RandomProgram& m) {
    const int64_t head = m.integer(1, 40);
    m.finish(m.norm(m.embed(Type::F32, 3 * head, 20), head));
  });
  for (const core::RopeStyle style : {core::RopeStyle::adjacent, core::RopeStyle::split})
    check("rope", [&](RandomProgram& m) {
      const int64_t pairs = m.integer(1, 20), head_dim = 2 * pairs + m.integer(0, 5);
      m.program.rope_tables.push_back({{}, 1.1f, style});
      for (int64_t i = 0; i < pairs; ++i)
        m.program.rope_tables[0].inverse_frequency.push_back(1.0f / static_cast<float>(1 + i));
      const core::ValueId x = m.embed(Type::F32, 3 * head_dim, 30);
      m.finish(m.op(OpKind::rope, {x}, {}, 3 * head_dim, core::RopeParams{0, 3, head_dim}));
    });
  check("attention", [](RandomProgram& m) {
    const int64_t k_dim = m.integer(1, 70), v_dim = m.integer(1, 70), kv_heads = m.integer(1, 3);
    const int64_t heads = kv_heads * m.integer(1, 9);
    m.program.kv_layers.push_back({kv_heads, k_dim, v_dim});
    const core::ValueId x = m.embed(Type::F32, 16, 30);
    const core::ValueId k = m.linear(x, Type::F32, kv_heads * k_dim), v = m.linear(x, Type::F32, kv_heads * v_dim);
    m.op(OpKind::kv_store, {k, v}, {}, 0, core::KvParams{0});
    const core::ValueId q = m.linear(x, Type::F32, heads * k_dim);
    m.finish(m.op(OpKind::attention, {q}, {}, heads * v_dim, core::AttentionParams{0, heads, 0.3f}));
  });
  check("permute", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 100);
    const core::ValueId x = m.embed(Type::F32, width, 30);
    m.finish(m.op(OpKind::permute, {x}, {m.order(width)}, width));
  });
  check("swiglu and add", [](RandomProgram& m) {
    const int64_t width = m.integer(1, 100);
    const core::ValueId x = m.embed(Type::F32, 16, 30);
    const core::ValueId gate = m.linear(x, Type::F32, width), up = m.linear(x, Type::F32, width);
    m.finish(m.op(OpKind::add, {m.op(OpKind::swiglu, {gate, up}, {}, width), gate}, {}, width));
  });
  for (const bool normalize : {false, true})
    check("experts", [&](RandomProgram& m) {
      RandomProgram::Shape shape;
      shape.hidden = m.integer(1, 80);
      shape.width = m.integer(1, 80);
      shape.experts = m.integer(2, 9);
      shape.used = m.integer(1, shape.experts);
      shape.normalize_shares = normalize;
      m.finish(m.moe(m.embed(Type::F32, shape.width, 30), shape, Type::F32));
    });
}

TEST_CASE("equal router scores go to the lowest expert") {
  RandomProgram model(1);
  std::vector<float> same(8 * 4, 0.0f);
  const core::ValueId x = model.embed(Type::F32, 4, 10);
  const core::WeightId scores_weight =
      model.add_weight(Type::F32, 4, 8, 1, reinterpret_cast<const std::byte*>(same.data()));
  const core::ValueId scores = model.op(OpKind::linear, {x}, {scores_weight}, 8);
  const core::ValueId ids = model.value(2, false, core::ValueKind::i32), shares = model.value(2);
  model.program.ops.push_back(
      {OpKind::route, -1, "route", {scores}, {ids, shares}, {}, core::RouteParams{8, 2, false}});
  const core::ValueId y =
      model.op(OpKind::expert_linear, {x, ids}, {model.weight(Type::F32, 4, 6, 8)}, 12, core::ExpertParams{2});
  model.finish(model.op(OpKind::expert_sum, {y, shares}, {}, 6, core::ExpertParams{2}));
  CHECK(worst_error(model, exact_config(), {1, 3}) < kExact);
}

TEST_CASE("every format gives the decoded weights' result, with f32 activations and with 8-bit ones") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : quant::formats()) {
    CAPTURE(format.name);
    for_each_target([&] {
      RandomProgram model(seed);
      // An odd number of rows; columns that are no whole chunk of 256 where the format allows.
      const int64_t cols =
          format.block_weights * (format.block_weights == 256 ? model.integer(1, 3) : model.integer(1, 19));
      core::ValueId x = model.embed(Type::F32, cols, 21);
      // Inputs that 8 bits hold without loss: whole sixteenths whose largest of each 32 is 127 of them.
      std::vector<std::byte>& table = model.storage.back();
      for (size_t i = 0; i < table.size() / 4; ++i) {
        const float value = (i % cols % 32 == 7 ? 127.0f : static_cast<float>(model.integer(-127, 127))) / 16;
        std::memcpy(table.data() + 4 * i, &value, 4);
      }
      x = model.linear(x, format.type, model.integer(30, 75));
      model.finish(x);
      CHECK(worst_error(model, exact_config(), {1, 2, 9}) < kExact);
      CHECK(worst_error(model, fast_config(), {1, 2, 9}) < (format.levels ? kLevels : kDots));
    });
  }
}

TEST_CASE("whole transformers match, dense and with experts") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const Type type : {Type::F32, Type::F16, Type::Q8_0, Type::Q4_K})
    for (const int64_t experts : {0, 5}) {
      CAPTURE(experts);
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.experts = experts;
      shape.used = 2;
      shape.style = experts ? core::RopeStyle::split : core::RopeStyle::adjacent;
      shape.bias = shape.head_norms = experts != 0;
      model.transformer(shape, type, Type::Q6_K);
      CHECK(worst_error(model, exact_config(), {9, 1, 1, 20, 2, 1}) < 1e-8);
      // With experts a tiny difference may choose another one.
      if (!experts) CHECK(worst_error(model, fast_config(), {9, 1, 1, 20, 2, 1}) < kFastModel);
    }
}

TEST_CASE("a prompt in one batch gives what it gives token by token") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for_each_target([&] {
    RandomProgram model(seed);
    model.transformer({}, Type::Q4_K, Type::Q6_K);
    const Steps prompt = consecutive(model, 0, 37);
    const auto at_once = kernels::cpu::make_cpu_executor(model.program, fast_config());
    const auto one_by_one = kernels::cpu::make_cpu_executor(model.program, fast_config());
    const std::vector<float> all = run(*at_once, prompt);
    std::vector<float> steps;
    for (int32_t i = 0; i < 37; ++i) {
      Steps step = {{prompt.tokens[i]}, {i}, {0}, {0}};
      const std::vector<float> logits = run(*one_by_one, step);
      steps.insert(steps.end(), logits.begin(), logits.end());
    }
    CHECK(tests::nmse(all, steps) < 1e-4);
  });
}

TEST_CASE("streams do not see one another, in whatever order their tokens come") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::F16, Type::F16);
  core::ExecutorConfig config = exact_config();
  config.streams = 3;
  const auto together = kernels::cpu::make_cpu_executor(model.program, config);
  Naive naive(model.program, false);
  std::vector<int32_t> next(3, 0);
  for (int round = 0; round < 4; ++round) {
    Steps steps;
    for (int i = 0; i < 12; ++i) {
      const auto stream = static_cast<int32_t>(model.integer(0, 2));
      steps.tokens.push_back(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
      steps.streams.push_back(stream);
      steps.positions.push_back(next[stream]++);
      if (model.integer(0, 1)) steps.outputs.push_back(i);
    }
    CHECK(tests::nmse(run(*together, steps), naive.forward(steps.batch())) < 1e-8);
  }
}

TEST_CASE("a stream can go back and continue differently") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::F32, Type::F32);
  const Steps prefix = consecutive(model, 0, 10), first = consecutive(model, 10, 30),
              second = consecutive(model, 10, 5);
  const auto rewound = kernels::cpu::make_cpu_executor(model.program, exact_config());
  run(*rewound, prefix);
  run(*rewound, first);
  const std::vector<float> after = run(*rewound, second);
  const auto fresh = kernels::cpu::make_cpu_executor(model.program, exact_config());
  run(*fresh, prefix);
  CHECK(after == run(*fresh, second));
}

TEST_CASE("long contexts pass through several blocks of attention") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  RandomProgram::Shape shape;
  shape.layers = 1;
  shape.width = 32;
  shape.hidden = 32;
  shape.k_dim = shape.v_dim = shape.rotated = 16;
  model.transformer(shape, Type::F32, Type::F32);
  core::ExecutorConfig config = exact_config();
  config.context = 700;
  config.max_batch = config.max_outputs = 300;
  CHECK(worst_error(model, config, {300, 1, 77, 1, 200}) < 1e-8);
  config.k_type = config.v_type = core::KvType::f16;
  CHECK(worst_error(model, config, {300, 1, 77}) < 1e-6); // half precision may round either way at a tie
}

TEST_CASE("more threads than rows, and one thread, give the same logits") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::Q8_0, Type::Q8_0);
  const Steps steps = consecutive(model, 0, 40);
  std::vector<float> expected;
  for (const int threads : {1, 2, 7}) {
    core::ExecutorConfig config = fast_config();
    config.threads = threads;
    const auto executor = kernels::cpu::make_cpu_executor(model.program, config);
    const std::vector<float> logits = run(*executor, steps);
    if (expected.empty()) expected = logits;
    CHECK(logits == expected);
  }
}

TEST_CASE("broken weights give broken logits, not a crash") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : quant::formats()) {
    CAPTURE(format.name);
    for (const int experts : {0, 3}) {
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.layers = 1;
      shape.hidden = 256;
      shape.vocab = 16;
      shape.experts = experts;
      shape.used = 2;
      model.transformer(shape, format.type, format.type);
      for (auto& data : model.storage)
        for (size_t at = 0; at + 8 <= data.size(); at += 8) {
          const uint64_t bits = model.random() | (model.random() & 0x7c7c7c7c7c7c7c7c); // NaN is frequent
          std::memcpy(data.data() + at, &bits, 8);
        }
      for (const core::ExecutorConfig& config : {exact_config(), fast_config()}) {
        const auto executor = kernels::cpu::make_cpu_executor(model.program, config);
        run(*executor, consecutive(model, 0, 6));
        CHECK(run(*executor, consecutive(model, 6, 1)).size() == static_cast<size_t>(model.program.vocab));
      }
    }
  }
}

TEST_CASE("requests outside the model or the context are refused with a reason") {
  RandomProgram model(1);
  model.transformer({}, Type::F32, Type::F32);
  const auto executor = kernels::cpu::make_cpu_executor(model.program, exact_config());
  CHECK_THROWS_AS(executor->forward(Steps{{64}, {0}, {0}, {0}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{-1}, {0}, {0}, {0}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{1}, {64}, {0}, {0}}.batch()), Error);
  executor->forward(Steps{{1}, {63}, {0}, {0}}.batch());
  CHECK_THROWS_AS(executor->logits(1), std::logic_error);
}
