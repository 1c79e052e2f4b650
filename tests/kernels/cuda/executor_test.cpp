// The CUDA executor against naive.h.
#include "kernels/cuda/executor/executor.h"

#include "core/error.h"
#include "decoding_checks.h"
#include "device.h"
#include "greedy.h"
#include "support/executor_runs.h"

#include <algorithm>
#include <numeric>

using namespace ridge;
using core::OpKind;
using quant::Type;
using tests::exact_config;
using tests::fast_config;
using tests::GpuOptions;
using tests::make_cuda_executor;
using tests::RandomProgram;
using tests::run;

namespace {

// NMSE: exact mode has f32 rounding, fast mode 16-bit activations and f16 tiles.
constexpr double kExact = 1e-9, kFast = 1e-5;
constexpr double kFastTransformer = 1e-4;

tests::MakeExecutor with(const GpuOptions& options) {
  return [options](const core::Program& program, const core::ExecutorConfig& config) {
    return make_cuda_executor(program, config, options);
  };
}

double worst_program_error(RandomProgram& model, const core::ExecutorConfig& config, const std::vector<int32_t>& sizes,
                           const GpuOptions& options = {}) {
  return tests::worst_error(with(options), model, config, sizes);
}

std::vector<std::pair<const char*, GpuOptions>> twins() {
  GpuOptions unfused, eager, serial, waiting, turing, ada;
  unfused.fuse = eager.graphs = serial.overlap = waiting.dataflow_sync = false;
  turing.as_compute = 75;
  ada.as_compute = 89;
  return {{"fused", {}},        {"unfused", unfused}, {"without graphs", eager}, {"without overlap", serial},
          {"waiting", waiting}, {"as sm_75", turing}, {"as sm_89", ada}};
}

} // namespace

TEST_CASE("CUDA: exact mode computes every op as defined, whatever the shape") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  tests::for_each_op(seed, [&](const std::string& name, RandomProgram& model) {
    CAPTURE(name);
    for (const auto& [twin, options] : twins()) {
      if (!share.takes_next()) continue;
      CAPTURE(twin);
      CHECK(worst_program_error(model, exact_config(), {1, 5, 2, 7}, options) < tests::exact_bound(name));
    }
  });
}

TEST_CASE(
    "CUDA: every format gives the decoded weights' result: exactly, and within 8 or 16-bit activations or f16 tiles") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (size_t i = 0; i < 2 * quant::formats().size(); ++i) {
    if (!share.takes_next()) continue;
    const quant::FormatInfo& format = quant::formats()[i / 2];
    CAPTURE(format.name);
    RandomProgram model(seed + i);
    // Enough rows that not all cancel.
    const int64_t cols =
        i % 2 ? 1024 * model.integer(1, 5)
              : format.block_weights * (format.block_weights == 256 ? model.integer(1, 9) : model.integer(1, 67));
    core::ValueId x = model.embed(Type::F32, cols, 21);
    x = model.linear(x, format.type, 2 * model.integer(8, 87) + 1);
    model.finish(x);
    const double exact = worst_program_error(model, exact_config(), {1, 2, 9});
    const double matvec = worst_program_error(model, fast_config(), {1, 2, 3, 4}),
                 product = worst_program_error(model, fast_config(), {5, 33});
    MESSAGE(format.name, " [", cols, " columns]: NMSE exact ", exact, ", matvec ", matvec, ", product ", product);
    CHECK(exact < kExact);
    CHECK(matvec < tests::single_token_bound(format));
    CHECK(product < kFast);
  }
}

TEST_CASE("CUDA: wide matrices of every format fit the shared memory of older chips") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const quant::FormatInfo& format : quant::formats())
    for (const auto& [chip, cols] : {std::pair(75, 8192), {89, 14336}}) {
      if (!share.takes_next()) continue;
      CAPTURE(format.name);
      CAPTURE(chip);
      RandomProgram model(seed);
      model.finish(model.linear(model.embed(Type::F32, cols, 21), format.type, 33));
      GpuOptions options;
      options.as_compute = chip;
      CHECK(worst_program_error(model, fast_config(), {1, 1}, options) < tests::single_token_bound(format));
    }
}

TEST_CASE("CUDA: an embedding table of any format gives its rows, bit for bit") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    RandomProgram model(seed);
    const int64_t cols =
        format.block_weights * (format.block_weights == 256 ? model.integer(1, 9) : model.integer(5, 67));
    const int64_t row_bytes = format.row_bytes(cols), distinct = std::min<int64_t>(cols, 5);
    std::vector<std::byte>& data = model.storage.emplace_back(cols * row_bytes);
    for (int64_t at = 0; at < distinct * row_bytes; at += format.block_bytes)
      model.fill_block(format, data.data() + at);
    for (int64_t at = distinct * row_bytes; at < std::ssize(data); ++at) data[at] = data[at - distinct * row_bytes];
    model.program.vocab = cols;
    const core::ValueId x =
        model.op(OpKind::embed, {}, {model.add_weight(format.type, cols, cols, 1, data.data())}, cols);
    std::vector<float> identity(cols * cols, 0.0f);
    for (int64_t i = 0; i < cols; ++i) identity[i * cols + i] = 1;
    const core::ValueId gathered = model.op(OpKind::gather, {x}, {}, cols);
    const core::WeightId one =
        model.add_weight(Type::F32, cols, cols, 1, reinterpret_cast<const std::byte*>(identity.data()));
    model.program.logits = model.op(OpKind::linear, {gathered}, {one}, cols);
    validate(model.program);
    const auto executor = make_cuda_executor(model.program, exact_config());
    const auto row = static_cast<int32_t>(model.integer(0, cols - 1));
    std::vector<float> expected(cols);
    format.decode(model.storage.front().data() + row * format.row_bytes(cols), cols, expected.data());
    CHECK(run(*executor, {{row}, {0}, {0}, {0}}) == expected);
  }
}

TEST_CASE("CUDA: whole transformers match, dense and with experts, fused and unfused, in exact and in fast mode") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  tests::for_each_transformer(seed, [&](Type, int64_t experts, RandomProgram& model) {
    for (const auto& [twin, options] : twins()) {
      if (!share.takes_next()) continue;
      CAPTURE(twin);
      CHECK(worst_program_error(model, exact_config(), {9, 1, 1, 20, 2, 1}, options) < 1e-8);
      if (experts == 0)
        CHECK(worst_program_error(model, fast_config(), {9, 1, 1, 20, 2, 1}, options) < kFastTransformer);
    }
  });
}

TEST_CASE("CUDA: rows that a Program keeps for draft heads are those of all tokens of the batch, fused or not") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t experts : {0, 4}) {
    RandomProgram model(seed);
    model.transformer(
        {.width = 64, .k_dim = 16, .v_dim = 16, .hidden = 96, .experts = experts, .used = 2, .rotated = 16}, Type::F32,
        Type::F32);
    for (const auto& [name, options] : twins()) {
      CAPTURE(name);
      tests::check_hidden_rows(with(options), model, exact_config(), 1e-8);
    }
  }
}

TEST_CASE("CUDA: experts in fast mode match where all of them are used, so that rounding cannot choose another") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Type type : {Type::F16, Type::Q8_0, Type::Q3_K, Type::IQ4_XS}) {
    RandomProgram model(seed);
    RandomProgram::Shape shape;
    shape.experts = shape.used = 3;
    model.transformer(shape, type, Type::Q6_K);
    for (const auto& [twin, options] : twins()) {
      if (!share.takes_next()) continue;
      CAPTURE(twin);
      CHECK(worst_program_error(model, fast_config(), {9, 1, 1, 20, 2, 1}, options) < kFastTransformer);
    }
  }
}

TEST_CASE("CUDA: streams do not see one another, in whatever order their tokens come") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::F16, Type::F16);
  CHECK(tests::worst_error_of_streams(with({}), model, exact_config()) < 1e-8);
  CHECK(tests::worst_error_of_streams(with({}), model, fast_config()) < 1e-4);
}

TEST_CASE("CUDA: streams that decode together, a token each, get what the unfused kernels and the definition give") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum core::KvType;
  // At dim 64 a warp takes two heads; the last may be missing.
  tests::Share share;
  for (const auto& [dim, odd] : {std::pair(64, 0), {64, 1}, {128, 0}, {128, 1}})
    for (const auto& [k_type, v_type] : {std::pair(f16, f16), {q8_0, q8_0}, {q8_0, f16}, {f16, q8_0}, {f32, f32}}) {
      if (!share.takes_next()) continue;
      CAPTURE(dim);
      CAPTURE(odd);
      CAPTURE(k_type);
      CAPTURE(v_type);
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.layers = 1;
      shape.width = shape.hidden = 64;
      shape.kv_heads = 2;
      shape.heads = 2 * (2 * model.integer(1, 8) - odd);
      shape.k_dim = shape.v_dim = dim;
      shape.rotated = model.integer(0, 2) ? dim : 2 * model.integer(1, dim / 2);
      shape.bias = shape.head_norms = model.integer(0, 1) != 0;
      shape.style = model.integer(0, 1) ? core::RopeStyle::split : core::RopeStyle::adjacent;
      model.transformer(shape, Type::F32, Type::F32);
      tests::check_streams(model, 270, k_type, v_type, k_type != q8_0 && v_type != q8_0 ? 1e-6 : INFINITY);
    }
}

TEST_CASE("CUDA: matrices of two formats with one input give the same in one kernel as in two") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const auto& [most, finer] : {std::pair(Type::Q4_K, Type::Q6_K),
                                    {Type::Q6_K, Type::Q4_K},
                                    {Type::Q3_K, Type::Q5_K},
                                    {Type::IQ2_XXS, Type::Q4_K},
                                    {Type::Q4_K, Type::F16}}) {
    CAPTURE(most);
    CAPTURE(finer);
    RandomProgram model(seed);
    const int64_t cols = 1024 * model.integer(1, 3), rows = model.integer(1, 3000);
    const core::ValueId x = model.norm(model.embed(Type::F32, cols, 40), cols);
    const core::ValueId q = model.linear(x, most, rows), k = model.linear(x, most, rows),
                        v = model.linear(x, finer, rows, true);
    const core::WeightId order = model.order(rows, rows);
    const auto shuffled = [&](core::ValueId id) {
      return model.op(OpKind::permute, {id}, {order}, rows, core::PermuteParams{rows});
    };
    const core::ValueId sum = model.op(OpKind::add, {shuffled(q), shuffled(k)}, {}, rows);
    model.finish(model.op(OpKind::add, {sum, shuffled(v)}, {}, rows));
    for (const auto& [twin, options] : twins()) {
      if (!share.takes_next()) continue;
      CAPTURE(twin);
      CHECK(worst_program_error(model, fast_config(), {1, 1, 2, 1}, options) < kFast);
    }
  }
}

TEST_CASE("CUDA: tokens that see later ones see those of their stream") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::for_each_encoder_op(seed, [](RandomProgram& model) {
    for (const auto& [name, options] : twins()) {
      CAPTURE(name);
      core::ExecutorConfig config = exact_config();
      config.context = config.max_batch = config.max_outputs = 300;
      config.streams = 2;
      CHECK(tests::worst_text_error(*make_cuda_executor(model.program, config, options), model) < 1e-9);
    }
  });
}

TEST_CASE("CUDA: a stream can go back and continue differently") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::F32, Type::F32);
  CHECK(tests::matches_after_rewind(with({}), model));
}

TEST_CASE("CUDA: greedy decoding on the device chooses what the host would choose, and the same twice") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  RandomProgram::Shape shape;
  shape.vocab = 3000;
  model.transformer(shape, Type::Q4_K, Type::Q6_K);
  core::ExecutorConfig config = fast_config();
  config.streams = 2;
  const auto executor = make_cuda_executor(model.program, config);
  const auto by_host = [&](int32_t token, int32_t stream, int count) {
    std::vector<int32_t> chosen;
    for (int32_t i = 0; i < count; ++i) {
      const std::vector<float> logits = run(*executor, {{token}, {i}, {stream}, {0}});
      token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
      chosen.push_back(token);
    }
    return chosen;
  };
  const auto by_device = [&](int32_t token, int32_t stream, int count) {
    return tests::greedy_tokens(*executor, shape.vocab, token, stream, count);
  };
  const std::vector<int32_t> first = by_device(5, 1, 40);
  CHECK(first == by_host(5, 1, 40));
  CHECK(first == by_device(5, 1, 40));
  CHECK(by_device(7, 0, 20) == by_host(7, 0, 20));
}

TEST_CASE("CUDA: two streams at once have the same logits twice") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::Q4_K, Type::Q6_K);
  core::ExecutorConfig config = fast_config();
  config.streams = 2;
  const auto executor = make_cuda_executor(model.program, config);
  const auto logits = [&] {
    std::vector<float> all;
    for (int32_t i = 0; i < 20; ++i) {
      const std::vector<float> row = run(*executor, {{5 + i, 7 + i}, {i, i}, {0, 1}, {0, 1}});
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  };
  const std::vector<float> once = logits();
  CHECK(once.size() == 20 * 2 * 64);
  CHECK(once == logits());
}

TEST_CASE("CUDA: broken weights give broken logits, not a crash") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    for (const int experts : {0, 2})
      if (!experts || format.type == Type::Q4_K) tests::check_broken_weights(with({}), seed, format.type, experts);
  }
}

TEST_CASE("CUDA: requests outside the model or the context are refused with a reason") {
  REQUIRE_DEVICE();
  tests::check_refusals(with({}));
}

TEST_CASE("CUDA: without a device, asking for one is an error that says so") {
  const auto info = kernels::cuda::device_info();
  if (info.usable) return;
  CHECK_FALSE(info.problem.empty());
  RandomProgram model(1);
  model.finish(model.embed(Type::F32, 8, 8));
  CHECK_THROWS_AS(make_cuda_executor(model.program, exact_config()), Error);
}
