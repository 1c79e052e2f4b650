// The CPU executor against naive.h.
#include "kernels/cpu/executor/executor.h"

#include "core/rings.h"
#include "kernels/cpu/each_target.h"
#include "support/executor_runs.h"

#include "core/error.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

using namespace ridge;
using core::OpKind;
using quant::Type;
using tests::consecutive;
using tests::exact_config;
using tests::fast_config;
using tests::for_each_target;
using tests::RandomProgram;
using tests::run;
using tests::Steps;

namespace {

// Bounds on NMSE. Exact mode has f32 rounding, and so have lossless 8-bit dots, though codes plus 128 cancel digits.
// Random models are more sensitive to fast mode than trained ones.
constexpr double kExact = 1e-9, kDots = 1e-8, kFastModel = 1e-2;

double worst_error(RandomProgram& model, const core::ExecutorConfig& config, const std::vector<int32_t>& sizes) {
  return tests::worst_error(kernels::cpu::make_cpu_executor, model, config, sizes);
}

} // namespace

TEST_CASE("exact mode computes every op as defined, whatever the shape") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::for_each_op(seed, [](const std::string& name, RandomProgram& model) {
    CAPTURE(name);
    for_each_target([&] { CHECK(worst_error(model, exact_config(), {1, 5, 2, 7}) < tests::exact_bound(name)); });
  });
}

TEST_CASE("the positions that an indexer chooses are those of the definition, however many") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::check_sparse_attention(kernels::cpu::make_cpu_executor, seed, kExact);
}

TEST_CASE("rows that a Program keeps for draft heads are those of all tokens of the batch") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t experts : {0, 4}) {
    RandomProgram model(seed);
    model.transformer(
        {.width = 64, .k_dim = 16, .v_dim = 16, .hidden = 96, .experts = experts, .used = 2, .rotated = 16}, Type::F32,
        Type::F32);
    tests::check_hidden_rows(kernels::cpu::make_cpu_executor, model, exact_config(), 1e-9);
  }
}

TEST_CASE("the Programs that executors are tested with have every kind of op") {
  std::set<std::string_view> expected, used;
#define RIDGE_OP(name, ...) expected.insert(#name);
#include "core/ops.def"
#undef RIDGE_OP
  tests::for_each_op(1, [&](const std::string&, RandomProgram& model) {
    for (const core::Op& op : model.program.ops) used.insert(name_of(op.kind));
  });
  CHECK(used == expected);
}

TEST_CASE("tokens that see later ones see those of their stream, and texts are whole") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::for_each_encoder_op(seed, [](RandomProgram& model) {
    const auto attention = std::ranges::find(model.program.ops, OpKind::attention, &core::Op::kind);
    const auto params = std::get<core::AttentionParams>(attention->params);
    CAPTURE(params.window);
    CAPTURE(params.reach);
    core::ExecutorConfig config = exact_config();
    config.context = config.max_batch = config.max_outputs = 300;
    config.streams = 2;
    for_each_target([&] {
      const auto executor = kernels::cpu::make_cpu_executor(model.program, config);
      CHECK(tests::worst_text_error(*executor, model) < 1e-9);
      if (params.causal) return;
      CHECK_THROWS_WITH_AS(executor->forward(tests::consecutive(model, 4, 3).batch()),
                           "tokens of this model see later ones: a batch must hold whole texts, starting at position 0",
                           Error);
    });
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

TEST_CASE("every format gives the decoded weights' result, with f32 activations and with quantized ones") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : quant::formats()) {
    CAPTURE(format.name);
    for_each_target([&] {
      RandomProgram model(seed);
      const int64_t cols =
          format.block_weights * (format.block_weights == 256 ? model.integer(1, 3) : model.integer(1, 19));
      core::ValueId x = model.embed(Type::F32, cols, 21);
      // Lossless in 8 bits: whole sixteenths, with a maximum of 127 in each 32.
      std::vector<std::byte>& table = model.storage.back();
      for (size_t i = 0; i < table.size() / 4; ++i) {
        const float value = (i % cols % 32 == 7 ? 127.0f : static_cast<float>(model.integer(-127, 127))) / 16;
        std::memcpy(table.data() + 4 * i, &value, 4);
      }
      x = model.linear(x, format.type, model.integer(30, 75));
      model.finish(x);
      CHECK(worst_error(model, exact_config(), {1, 2, 9}) < kExact);
      CHECK(worst_error(model, fast_config(), {1, 2, 9}) < kDots);
      core::ExecutorConfig wide = fast_config();
      wide.wide = true;
      CHECK(worst_error(model, wide, {1, 2, 9}) < kDots);
      for (size_t i = 0; i < table.size() / 4; ++i) {
        const float value = static_cast<float>(model.integer(-1000000, 1000000)) / 1e6f;
        std::memcpy(table.data() + 4 * i, &value, 4);
      }
      CHECK(worst_error(model, wide, {1, 2, 9}) < kDots);
    });
  }
}

TEST_CASE("activations have 16 bits where a small error may become a large one, in all parts of a Program") {
  RandomProgram dense(1), chosen(1);
  RandomProgram::Shape shape;
  dense.transformer(shape, Type::Q8_0, Type::Q8_0);
  shape.experts = 4;
  shape.used = 2;
  chosen.transformer(shape, Type::Q8_0, Type::Q8_0);
  CHECK(!core::amplifies_errors(dense.program));
  CHECK(core::amplifies_errors(chosen.program));
  CHECK(worst_error(dense, fast_config(), {9, 1}) > 1e-6);
  CHECK(worst_error(chosen, fast_config(), {9, 1}) < 1e-6);
}

TEST_CASE("whole transformers match, dense and with experts") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::for_each_transformer(seed, [](Type, int64_t experts, RandomProgram& model) {
    CHECK(worst_error(model, exact_config(), {9, 1, 1, 20, 2, 1}) < 1e-8);
    // With experts, a tiny difference may choose another one.
    if (!experts) CHECK(worst_error(model, fast_config(), {9, 1, 1, 20, 2, 1}) < kFastModel);
  });
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
  CHECK(tests::worst_error_of_streams(kernels::cpu::make_cpu_executor, model, exact_config()) < 1e-8);
}

TEST_CASE("a stream can go back and continue differently") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::F32, Type::F32);
  CHECK(tests::matches_after_rewind(kernels::cpu::make_cpu_executor, model));
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
  CHECK(worst_error(model, config, {300, 1, 77}) < 1e-6); // ties in f16 rounding
}

TEST_CASE("keys and values are cached in the types asked for, each in its own") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum core::KvType;
  std::vector<std::pair<core::KvType, core::KvType>> pairs = {{f32, f16}, {f16, f32}, {q8_0, f32}, {f32, q8_0}};
  for (const std::string& name : core::kv_type_names())
    for (const core::KvType other : {core::kv_type_of(name), f16})
      pairs.insert(pairs.end(), {{core::kv_type_of(name), other}, {other, core::kv_type_of(name)}});
  for (const int64_t dim : {32, 96})
    for (const auto& [k_type, v_type] : pairs) {
      const bool rotated = core::format_of(k_type).rotated || core::format_of(v_type).rotated;
      CAPTURE(dim);
      CAPTURE(k_type);
      CAPTURE(v_type);
      for_each_target([&] {
        RandomProgram model(seed);
        RandomProgram::Shape shape;
        shape.layers = 1;
        shape.width = shape.hidden = 32;
        shape.k_dim = shape.v_dim = shape.rotated = dim;
        model.transformer(shape, Type::F32, Type::F32);
        core::ExecutorConfig config = exact_config();
        config.context = 200;
        config.max_batch = config.max_outputs = 150;
        config.k_type = k_type;
        config.v_type = v_type;
        // Last bits decide between codes.
        CHECK(worst_error(model, config, {150, 1, 5}) < (rotated ? 1e-4 : 1e-5));
        const Steps steps = consecutive(model, 0, 150);
        const std::vector<float> logits = run(*kernels::cpu::make_cpu_executor(model.program, config), steps);
        config.k_type = config.v_type = core::KvType::f32;
        CHECK(tests::nmse(logits, run(*kernels::cpu::make_cpu_executor(model.program, config), steps)) <
              (rotated ? 2e-2 : 1e-4));
      });
    }
}

TEST_CASE("a q8_0 cache is refused for heads that are no whole blocks, by name") {
  RandomProgram model(1);
  RandomProgram::Shape shape;
  shape.v_dim = 80;
  model.transformer(shape, Type::F32, Type::F32);
  core::ExecutorConfig config = exact_config();
  config.k_type = core::KvType::q8_0;
  CHECK_NOTHROW(kernels::cpu::make_cpu_executor(model.program, config));
  config.v_type = core::KvType::q8_0;
  CHECK_THROWS_WITH_AS(
      kernels::cpu::make_cpu_executor(model.program, config),
      "q8_0 values in the KV cache need a head size that is a multiple of 32 elements, this model has 80; use -ctv f16",
      Error);
}

TEST_CASE("caches that hold only a window give what whole ones give, in laps of any length") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const auto& [window, chunked] : {std::pair(1, false), {5, false}, {70, false}, {40, true}})
    for (const core::KvType type : {core::KvType::f32, core::KvType::f16, core::KvType::q8_0, core::KvType::q4_1}) {
      CAPTURE(window);
      CAPTURE(chunked);
      CAPTURE(type);
      RandomProgram model(seed);
      RandomProgram::Shape shape = {.width = 64, .hidden = 96};
      shape.attention = {.window = window, .chunked = chunked};
      shape.sinks = chunked;
      shape.k_dim = shape.v_dim = shape.rotated = 32;
      model.transformer(shape, Type::F32, Type::F32);
      core::ExecutorConfig config = exact_config();
      config.context = 700;
      config.max_batch = config.max_outputs = 45;
      config.rewind_tokens = 6;
      config.k_type = config.v_type = type;
      CHECK(core::cache_rows(model.program, config)[0].rows <= 128);
      // Last-bit differences may change codes: 8e-6 measured.
      const double bound = core::format_of(type).rotated ? 1e-3 : type == core::KvType::q8_0 ? 1e-4 : 1e-6;
      CHECK(tests::worst_error_of_rings(kernels::cpu::make_cpu_executor, model, config) < bound);
    }
}

TEST_CASE("the cost model and the cache agree on what a type takes") {
  RandomProgram model(1);
  model.transformer({}, Type::F32, Type::F32);
  core::ExecutorConfig config = exact_config();
  const auto memory = [&](core::KvType k_type, core::KvType v_type) {
    config.k_type = k_type;
    config.v_type = v_type;
    return kernels::cpu::make_cpu_executor(model.program, config)->memory_bytes();
  };
  const auto cost = [&](core::KvType k_type, core::KvType v_type) {
    config.k_type = k_type;
    config.v_type = v_type;
    return core::kv_cache_bytes(model.program, config, config.context);
  };
  using enum core::KvType;
  CHECK(memory(f32, f32) - memory(q8_0, f32) == cost(f32, f32) - cost(q8_0, f32));
  CHECK(memory(f32, f16) - memory(q8_0, q8_0) == cost(f32, f16) - cost(q8_0, q8_0));
  CHECK(cost(q8_0, q8_0) == cost(f16, f16) * 34 / 64);
  CHECK(memory(f32, f16) - memory(q5_1, iq4_nl) == cost(f32, f16) - cost(q5_1, iq4_nl));
  CHECK(cost(q4_0, q5_1) == cost(f16, f16) * (18 + 24) / 128);
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
    for (const int experts : {0, 3})
      tests::check_broken_weights(kernels::cpu::make_cpu_executor, seed, format.type, experts);
  }
}

TEST_CASE("requests outside the model or the context are refused with a reason") {
  tests::check_refusals(kernels::cpu::make_cpu_executor);
}
